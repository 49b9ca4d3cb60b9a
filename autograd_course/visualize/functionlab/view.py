"""A sweep as JSON: everything that the page shows, in words and numbers made here."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from autograd_course.visualize.functionlab import describe
from autograd_course.visualize.functionlab.extent import extent
from autograd_course.visualize.functionlab.listing import Listing
from autograd_course.visualize.functionlab.spans import spans
from autograd_course.visualize.functionlab.subject import GRAD_OUTPUT, Range, Subject
from autograd_course.visualize.functionlab.trace import Position, Sweep
from autograd_course.visualize.kit.formatting import number
from autograd_course.visualize.kit.slider import positions

Json = dict[str, Any]
Pair = tuple[float, float | None]
_PARAMETER_STEPS = 60
_GRAD_OUTPUT_RANGE = (-3.0, 3.0)
_UNTOLD = (
    "Lines are not recorded where a debugger or another tracer is at work, or compiled code runs."
)


def scene(
    sweep: Sweep, subject: Subject, source: Listing, before: Mapping[str, Range] | None = None
) -> Json:
    """Put a sweep into words; ``before`` are the ranges of the axes that the reader sees now."""
    at = sweep.positions
    lines = slopes(sweep)
    shown = [value for line in lines.values() for _, value in line]
    ranges = {
        "x": (at[0].x, at[-1].x),
        "y": extent([y for _, y in sweep.curve], before["y"] if before else None),
        "slope": extent(shown, before["slope"] if before else None, zero=True),
    }
    return {
        "title": f"Function lab: {sweep.name}",
        "source": _source(source, sweep),
        "sliders": _sliders(sweep, subject),
        "variable": sweep.variable,
        "positions": [position.x for position in at],
        "frames": [_frame(position, sweep) for position in at],
        "curve": [(x, _plain(y)) for x, y in sweep.curve],
        "slopes": {name: [(x, _plain(y)) for x, y in line] for name, line in lines.items()},
        "ranges": ranges,
        "bands": {kind: bands(at, kind) for kind in ("differ", "open")},
        "overview": describe.overview(sweep),
    }


def slopes(sweep: Sweep) -> dict[str, list[Pair]]:
    """Return the lines of the lower plot: slopes over x, broken where there is none.

    ``chosen`` are single points: what backward says at a kink or a jump.
    """
    lines: dict[str, list[Pair]] = {"backward": [], "differences": [], "chosen": []}
    for place in sweep.positions:
        x, broken = place.x, place.verdict not in ("agree", "differ", "surrogate")
        lines["backward"].append((x, None if broken else place.slope))
        if place.sides is None or place.verdict in ("jump", "steep"):
            lines["differences"].append((x, None))
        elif place.sides.bent:
            both = [(x, place.sides.left), (x, None), (x, place.sides.right)]
            lines["differences"] += both
        else:
            lines["differences"].append((x, place.sides.central))
        if broken and place.slope is not None:
            lines["chosen"].append((x, place.slope))
    return lines


def bands(at: Sequence[Position], verdict: Any) -> list[Range]:
    """Return where a verdict holds, each stretch wide enough to be seen."""
    half = (at[-1].x - at[0].x) / (len(at) - 1) / 2
    found = describe.spans_of(at, verdict)
    return [(max(low - half, at[0].x), min(high + half, at[-1].x)) for low, high in found]


def _source(source: Listing, sweep: Sweep) -> Json:
    parts = [
        {"heading": part.heading, "phase": part.phase, "rows": spans(part.rows)}
        for part in source.parts
    ]
    notices = [f"The source of {heading} is not available." for heading in source.missing]
    ran = any(position.steps for position in sweep.positions)
    if parts and not ran:
        notices.append(_UNTOLD)
    if not source.own:
        notices.append(
            "There is no custom Function inside: backward is autograd's own, put together from "
            "the operations of forward."
        )
    return {"parts": parts, "notice": " ".join(notices), "own": source.own}


def _sliders(sweep: Sweep, subject: Subject) -> list[Json]:
    given = [*sweep.parameters, (GRAD_OUTPUT, sweep.grad_output)]
    return [_slider(name, value, subject) for name, value in given]


def _slider(name: str, value: float, subject: Subject) -> Json:
    usual = name == GRAD_OUTPUT and name not in subject.ranges
    low, high = _GRAD_OUTPUT_RANGE if usual else subject.range(name)
    values = positions(min(low, value), max(high, value), value, _PARAMETER_STEPS)
    if subject.whole(name):
        values = sorted({float(round(one)) for one in values})
    labels = [number(one) for one in values]
    return {"name": name, "values": values, "labels": labels, "index": values.index(value)}


def _frame(position: Position, sweep: Sweep) -> Json:
    run = position.run
    return {
        "label": number(position.x),
        "y": _plain(run.y) if run else None,
        "value": number(run.y) if run else "none",
        "slope": _plain(position.slope),
        "sides": _sides(position),
        "verdict": position.verdict,
        "sentence": describe.judged(position, sweep.variable),
        "byBackward": describe.by_backward(position),
        "byDifferences": describe.by_differences(position),
        "sent": describe.sent_back(position, sweep.grad_output),
        "kept": [(one.name, one.text, one.what) for one in run.kept] if run else None,
        "steps": [(step.row, step.phase, step.note) for step in position.steps],
    }


def _sides(position: Position) -> list[float] | None:
    if position.sides is None or position.verdict in ("jump", "steep"):
        return None
    if position.sides.bent:
        return [position.sides.left, position.sides.right]
    return [position.sides.central]


def _plain(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
