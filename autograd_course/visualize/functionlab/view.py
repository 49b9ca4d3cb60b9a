"""Convert a sweep to JSON for the page and the picture: axes, curves, text and numbers."""

import io
import keyword
import math
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autograd_course.visualize.functionlab import describe
from autograd_course.visualize.functionlab.lines import Listing
from autograd_course.visualize.functionlab.subject import GRAD_OUTPUT, Range, Subject
from autograd_course.visualize.functionlab.trace import Position, Sweep
from autograd_course.visualize.kit.formatting import number
from autograd_course.visualize.kit.slider import positions

Json = dict[str, Any]
Pair = tuple[float, float | None]
_PARAMETER_STEPS = 60
_GRAD_OUTPUT_RANGE = (-3.0, 3.0)
_UNTOLD = (
    "The lab cannot record lines while a debugger or another tracer is active, or after "
    "torch.compile has run on Python 3.11."
)


def build_view(
    sweep: Sweep, subject: Subject, source: Listing, before: Mapping[str, Range] | None = None
) -> Json:
    """Return the page's content for a sweep. ``before`` contains the current axis ranges."""
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
        "sliders": [
            _slider(name, value, subject)
            for name, value in (*sweep.parameters, (GRAD_OUTPUT, sweep.grad_output))
        ],
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
    """Return the slope curves of the lower plot. Missing slopes leave gaps.

    ``chosen`` contains individual points: the slopes from backward at a kink or a jump.
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
    """Return intervals of x with the same verdict, each wide enough to be visible."""
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
            "This code contains no custom Function, so autograd derives backward from the "
            "operations of forward."
        )
    return {"parts": parts, "notice": " ".join(notices), "own": source.own}


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


# --------------------------------------------------------------------------------------------------
# The range of an axis. It covers the typical values, because a pole would otherwise flatten the
# rest of the curve.
# --------------------------------------------------------------------------------------------------

_TAIL = 0.03  # the fraction of values at each end that may be outside the plot
_BEYOND = 0.4  # only if they are this far from the others, relative to the others' spread
_ROOM = 0.08
_NOISE = 1e-6  # relative; smaller differences count as 0, so that rounding is not magnified
_LEAST = 0.4  # the range stays the same if the values use at least this fraction of it


def extent(
    values: Iterable[float | None], present: Range | None = None, zero: bool = False
) -> Range:
    """Return a range for the values. Keep the current range if the values still fill enough of it.

    If ``zero`` is true, the range includes 0.

    If the axis fitted every curve exactly, a function that is twice as steep would look the same.
    """
    finite = sorted(v for v in values if v is not None and math.isfinite(v))
    if not finite:
        return present or (-1.0, 1.0)
    cut = int(_TAIL * len(finite))
    inner_low, inner_high = finite[cut], finite[-1 - cut]
    beyond = _BEYOND * (inner_high - inner_low)
    low, high = max(finite[0], inner_low - beyond), min(finite[-1], inner_high + beyond)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    fits = present and present[0] <= low and high <= present[1]
    if present and fits and high - low >= _LEAST * (present[1] - present[0]):
        return present
    flat = high - low <= _NOISE * max(abs(low), abs(high))
    room = max(1.0, abs(high)) if flat else _ROOM * (high - low)
    return low - room, high + room


# --------------------------------------------------------------------------------------------------
# Python source as spans of text in different styles.
# --------------------------------------------------------------------------------------------------

Span = tuple[str, str]  # kind ("keyword", "comment", "string" or "" for other text), and the text


def spans(rows: Sequence[str]) -> list[list[Span]]:
    """Split each row into spans. Joining the spans of a row gives the row."""
    marks: list[list[tuple[int, int, str]]] = [[] for _ in rows]
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(rows)).readline):
            _mark(token, marks, rows)
    except (tokenize.TokenError, SyntaxError):  # the rest of an incomplete statement has no styles
        pass
    return [_split(row, mark) for row, mark in zip(rows, marks, strict=True)]


def _mark(
    token: tokenize.TokenInfo, marks: list[list[tuple[int, int, str]]], rows: Sequence[str]
) -> None:
    if not (kind := _kind(token)):
        return
    for line in range(token.start[0], token.end[0] + 1):
        begin = token.start[1] if line == token.start[0] else 0
        end = token.end[1] if line == token.end[0] else len(rows[line - 1])
        marks[line - 1].append((begin, end, kind))


def _kind(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME and keyword.iskeyword(token.string):
        return "keyword"
    return {tokenize.COMMENT: "comment", tokenize.STRING: "string"}.get(token.type, "")


def _split(row: str, marks: Sequence[tuple[int, int, str]]) -> list[Span]:
    found: list[Span] = []
    at = 0
    for begin, end, kind in marks:
        found += [("", row[at:begin]), (kind, row[begin:end])]
        at = end
    return [span for span in [*found, ("", row[at:])] if span[1]]
