"""Prepare the content of the page and the picture, as frames of JSON-compatible data.

A frame contains only the changes of its step. :func:`at` combines the frames.
"""

import math
from collections.abc import Iterator
from typing import Any

from autograd_course.visualize.kit.formatting import size
from autograd_course.visualize.tiles import describe
from autograd_course.visualize.tiles.trace import Matrix, Phase, TileTrace, Visit

View = dict[str, Any]
Frame = dict[str, Any]
# The tensors in memory during a visit, by their names in the trace.
_SYMBOLS: dict[Phase, dict[str, str]] = {
    "forward": {
        "q": "Q", "k": "K", "v": "V", "scores": "S", "weights": "W", "out": "O", "max": "m",
        "sum": "ℓ", "rescale": "r",
    },
    "backward": {
        "q": "Q", "k": "K", "v": "V", "grad_out": "∂O", "scores": "S", "weights": "P",
        "grad_scores": "∂S", "grad_q": "∂Q", "grad_k": "∂K", "grad_v": "∂V", "lse": "L",
        "delta": "D",
    },
}  # fmt: skip
_MOST_TEXTS = 10  # if there are more queries or keys, the cells are too small for numbers
_MOST_FIGURES = 21  # if there are more queries or keys, the rows are too small for numbers
_FINE = 1000  # the resolution of a bar


def build_view(trace: TileTrace) -> View:
    """Return the view of a trace: the matrix, and the frames from the beginning to the end."""
    return {
        "title": describe.headline(trace),
        "rows": [[rows.start, rows.stop] for rows in trace.rows],
        "columns": [[columns.start, columns.stop] for columns in trace.columns],
        "skipped": [list(place) for place in trace.skipped],
        "hidden": ["".join("10"[pair] for pair in row) for row in trace.visible],
        "given": {name: heat(trace.tensors[name]) for name in ("q", "k", "v", "grad_out")},
        "longest": describe.figure(trace.longest_sum, 2),
        "begin": _figures(_texts(trace, {"m": -math.inf, "ℓ": 0.0}), []),
        "captions": describe.CAPTIONS,
        "memory": describe.memory(trace),
        "whole": {phase: _weighed(trace, visit) for phase, visit in trace.whole.items()},
        "frames": [
            _frame("start", "given", describe.given(trace)),
            *_forward(trace),
            *_backward(trace),
            _frame("end", "end", describe.end(trace)),
        ],
    }


def at(view: View, step: int) -> Frame:
    """Return the frame of a step, combined with the frames of the earlier steps."""
    figures: dict[str, Any] = {}
    filled: dict[str, Any] = {}
    trail: list[list[int]] = []
    for past in view["frames"][: step + 1]:
        trail = [] if past["kind"] == "delta" else trail
        trail = [*trail, past["tile"]] if past["tile"] else trail
        figures |= past["figures"]
        filled |= past["filled"]
    return {**view["frames"][step], "figures": figures, "filled": filled, "trail": trail}


def most_telling(trace: TileTrace, view: View) -> int:
    """Return a late step at which a rising maximum rescales a row's sum by a factor near 1/2."""
    steps = [i for i, f in enumerate(view["frames"]) if f["tile"] and f["phase"] == "forward"]

    def rank(index: int) -> tuple[bool, float]:
        visit = trace.forward[index]
        late = 2 * visit.row >= len(trace.rows) - 1 and 2 * visit.column >= len(trace.columns) - 1
        shares = (abs(f - 0.5) for f in visit.column_of("rescale") if 0 < f < 1)
        return late, -min(shares, default=1.0)

    return steps[max(range(len(steps)), key=rank)]


# --------------------------------------------------------------------------------------------------
# The frames: the changes and the texts of each step in forward and backward.
# --------------------------------------------------------------------------------------------------


def _frame(phase: str, kind: str, text: str, **more: Any) -> Frame:
    """Return a frame that changes only the given parts of the page."""
    usual: Frame = {
        "tile": None,
        "line": None,
        "figures": {},
        "filled": {},
        "cells": None,
        "held": None,
    }
    return {"phase": phase, "kind": kind, "text": text, **usual, **more}


def _forward(trace: TileTrace) -> Iterator[Frame]:
    """Yield the frames of forward, one row of tiles after another."""
    for row, places in enumerate(trace.rows):
        before: Visit | None = None
        parts: list[list[float]] = [[] for _ in places]
        for visit in (visit for visit in trace.forward if visit.row == row):
            for part, factor, weights in zip(
                parts, visit.column_of("rescale"), visit.of("weights"), strict=True
            ):
                part[:] = [*(factor * share for share in part), sum(weights)]
            shares = [_shares(trace, part) for part in parts]
            yield _frame(
                "forward",
                "tile",
                describe.meeting(trace, visit, before),
                **_turn(trace, visit, "scores", _SYMBOLS["forward"]),
                figures=_running(trace, visit, before, shares),
                filled={f"out {row}": _so_far(trace, visit)},
            )
            before = visit
        yield _row_done(trace, row, [_shares(trace, part) for part in parts])


def _backward(trace: TileTrace) -> Iterator[Frame]:
    """Yield the frames of backward, one column of tiles after another."""
    unseen = {str(i): _kept(trace, i, 0.0) for i in range(trace.queries)}
    yield _frame("backward", "delta", describe.delta(trace), figures=unseen)
    sums = [0.0] * trace.queries
    most = {name: largest(trace.tensors[name]) for name in ("grad_q", "grad_k", "grad_v")}
    for column, _ in enumerate(trace.columns):
        for visit in (visit for visit in trace.backward if visit.column == column):
            for query, weights in zip(trace.rows[visit.row], visit.of("weights"), strict=True):
                sums[query] += sum(weights)
            places = {"grad_q": visit.row, "grad_k": column, "grad_v": column}
            yield _frame(
                "backward",
                "tile",
                describe.meeting_back(trace, visit),
                **_turn(trace, visit, "weights", _SYMBOLS["backward"]),
                figures={str(i): _kept(trace, i, sums[i]) for i in trace.rows[visit.row]},
                filled={f"{n} {at}": heat(visit.of(n), most[n]) for n, at in places.items()},
            )
        yield _frame(
            "backward", "done", describe.finished_column(trace, column), line=["column", column]
        )


def _shares(trace: TileTrace, part: list[float]) -> list[int]:
    """Return the segments of a bar. In small rows, join all segments except the latest one."""
    shown = part if _figured(trace) else [sum(part[:-1]), part[-1]]
    return [_share(share, trace.longest_sum) for share in shown]


def _share(share: float, longest: float) -> int:
    return round(_FINE * share / longest)


def _running(
    trace: TileTrace, visit: Visit, before: Visit | None, shares: list[list[int]]
) -> dict[str, Any]:
    found, longest = {}, trace.longest_sum
    for place, query in enumerate(trace.rows[visit.row]):
        running = {"m": visit.column_of("max")[place], "ℓ": visit.column_of("sum")[place]}
        texts = _texts(trace, running)
        factor = visit.column_of("rescale")[place]
        if before is None or not 0 < factor < 1:
            found[str(query)] = _figures(texts, shares[place])
            continue
        ghost = _share(before.column_of("sum")[place], longest)
        rescaled = f"×{describe.figure(factor, 2)}"
        found[str(query)] = _figures(texts, shares[place], rescaled, ghost)
    return found


def _so_far(trace: TileTrace, visit: Visit) -> list[str]:
    """Return the output for a row of tiles after a visit, divided by the current sum."""
    pairs = zip(visit.of("out"), visit.column_of("sum"), strict=True)
    mixed = tuple(tuple(x / (total or 1.0) for x in row) for row, total in pairs)
    return heat(mixed, largest(trace.tensors["out"]))


def _row_done(trace: TileTrace, row: int, shares: list[list[int]]) -> Frame:
    places = trace.rows[row]
    done = trace.tensors["out"][places.start : places.stop]
    return _frame(
        "forward",
        "done",
        describe.finished_row(trace, row),
        line=["row", row],
        figures={
            str(i): _figures(_texts(trace, {"L": trace.lse[i]}), share)
            for i, share in zip(places, shares, strict=True)
        },
        filled={f"out {row}": heat(done, largest(trace.tensors["out"]))},
    )


def _kept(trace: TileTrace, query: int, share: float) -> dict[str, Any]:
    kept = {"L": trace.lse[query], "D": trace.delta[query]}
    return _figures(_texts(trace, kept), [_share(share, 1.0)])


def _texts(trace: TileTrace, values: dict[str, float]) -> dict[str, str]:
    """Format the numbers of a row, keyed by their names."""
    if not _figured(trace):
        return {}
    return {name: describe.short(value) for name, value in values.items()}


def _figured(trace: TileTrace) -> bool:
    return max(trace.queries, trace.keys) <= _MOST_FIGURES


def _figures(texts: dict[str, str], parts: list[int], factor: str = "", ghost: int = 0) -> Frame:
    """Return the contents of a row: its numbers, its bar, a factor, and the earlier bar."""
    return {"texts": texts, "parts": parts, "factor": factor, "ghost": ghost}


def _turn(trace: TileTrace, visit: Visit, numbers: str, names: dict[str, str]) -> dict[str, Any]:
    seen = [
        [trace.visible[i][j] for j in trace.columns[visit.column]] for i in trace.rows[visit.row]
    ]
    cells: dict[str, Any] = {"heat": heat(visit.of("weights"), 1.0, shown=len(seen[0]))}
    if max(trace.queries, trace.keys) <= _MOST_TEXTS:
        pairs = zip(visit.of(numbers), seen, strict=True)
        cells["texts"] = [
            [describe.short(x) if shown else "" for x, shown in zip(row, mask, strict=True)]
            for row, mask in pairs
        ]
    parts = ", ".join(f"{names[name]} {held.size}" for name, held in visit.held.items())
    return {
        "tile": [visit.row, visit.column],
        "cells": cells,
        "held": {**_weighed(trace, visit), "parts": parts},
    }


def _weighed(trace: TileTrace, visit: Visit) -> dict[str, Any]:
    """Return the memory of a visit as text, and relative to a run with a single tile."""
    whole = max(turn.bytes for turn in trace.whole.values())
    shares = {"square": visit.square / whole, "all": visit.bytes / whole}
    return {"text": size(visit.bytes), **{n: round(x, 4) for n, x in shares.items()}}


# --------------------------------------------------------------------------------------------------
# Rows of numbers as digits, which are shades of a color. The largest magnitude has the digit 8.
# --------------------------------------------------------------------------------------------------

LEVELS = 8
_SHOWN = 8  # the number of features that are drawn


def largest(values: Matrix) -> float:
    """Return the largest magnitude of a finite element, or 1 if all elements are zero."""
    return max((abs(x) for row in values for x in row if math.isfinite(x)), default=0.0) or 1.0


def heat(values: Matrix, most: float | None = None, shown: int = _SHOWN) -> list[str]:
    """Encode the first elements of each row as digits. ``most`` maps to the highest digit."""
    most = largest(values) if most is None else most
    return ["".join(str(_level(x, most)) for x in row[:shown]) for row in values]


def _level(value: float, most: float) -> int:
    return round(min(abs(value) / most, 1.0) * LEVELS) if math.isfinite(value) else 0
