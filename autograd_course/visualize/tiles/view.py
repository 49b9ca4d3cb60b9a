"""The frames of a story: what each step of forward and of backward changes, and says."""

import math
from collections.abc import Iterator
from typing import Any

from autograd_course.visualize.kit.formatting import size
from autograd_course.visualize.tiles import describe
from autograd_course.visualize.tiles.heat import heat, largest
from autograd_course.visualize.tiles.trace import TileTrace, Visit

Frame = dict[str, Any]
_FORWARD = {"q": "Q", "k": "K", "v": "V", "scores": "S", "weights": "W", "out": "O", "max": "m"}
_FORWARD |= {"sum": "ℓ", "rescale": "r"}
_BACKWARD = {"q": "Q", "k": "K", "v": "V", "grad_out": "∂O", "scores": "S", "weights": "P"}
_BACKWARD |= {"grad_scores": "∂S", "grad_q": "∂Q", "grad_k": "∂K", "grad_v": "∂V"}
_BACKWARD |= {"lse": "L", "delta": "D"}
_MOST_TEXTS = 10  # queries or keys of a matrix whose cells are large enough for numbers
_MOST_FIGURES = 21  # and of one whose rows are high enough
_FINE = 1000  # parts of a bar


def frame(phase: str, kind: str, text: str, **more: Any) -> Frame:
    """Return a frame that changes only what is named."""
    usual: Frame = {
        "tile": None,
        "line": None,
        "figures": {},
        "filled": {},
        "cells": None,
        "held": None,
    }
    return {"phase": phase, "kind": kind, "text": text, **usual, **more}


def forward(trace: TileTrace) -> Iterator[Frame]:
    """Tell forward, row of tiles by row of tiles."""
    for row, places in enumerate(trace.rows):
        before: Visit | None = None
        parts: list[list[float]] = [[] for _ in places]
        for visit in (visit for visit in trace.forward if visit.row == row):
            _add(parts, visit)
            shares = [_shares(trace, part) for part in parts]
            yield frame(
                "forward",
                "tile",
                describe.meeting(trace, visit, before),
                **_turn(trace, visit, "scores", _FORWARD),
                figures=_running(trace, visit, before, shares),
                filled={f"out {row}": _so_far(trace, visit)},
            )
            before = visit
        yield _row_done(trace, row, [_shares(trace, part) for part in parts])


def backward(trace: TileTrace) -> Iterator[Frame]:
    """Tell backward, column of tiles by column of tiles."""
    yield _prepared(trace)
    sums = [0.0] * trace.queries
    most = {name: largest(trace.tensors[name]) for name in ("grad_q", "grad_k", "grad_v")}
    for column, _ in enumerate(trace.columns):
        for visit in (visit for visit in trace.backward if visit.column == column):
            for query, weights in zip(trace.rows[visit.row], visit.of("weights"), strict=True):
                sums[query] += sum(weights)
            places = {"grad_q": visit.row, "grad_k": column, "grad_v": column}
            yield frame(
                "backward",
                "tile",
                describe.meeting_back(trace, visit),
                **_turn(trace, visit, "weights", _BACKWARD),
                figures={str(i): _kept(trace, i, sums[i]) for i in trace.rows[visit.row]},
                filled={f"{n} {at}": heat(visit.of(n), most[n]) for n, at in places.items()},
            )
        yield frame(
            "backward", "done", describe.finished_column(trace, column), line=["column", column]
        )


def _add(parts: list[list[float]], visit: Visit) -> None:
    """Rescale what the rows' sums were made of, and add this tile's part."""
    for part, factor, weights in zip(
        parts, visit.column_of("rescale"), visit.of("weights"), strict=True
    ):
        part[:] = [*(factor * share for share in part), sum(weights)]


def _shares(trace: TileTrace, part: list[float]) -> list[int]:
    """Return the parts of a bar; where rows are low, only what was there and what is new."""
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
        told = f"×{describe.figure(factor, 2)}"
        found[str(query)] = _figures(texts, shares[place], told, ghost)
    return found


def _so_far(trace: TileTrace, visit: Visit) -> list[str]:
    """Return the output of a row of tiles as it is after a turn, divided by the sum so far."""
    pairs = zip(visit.of("out"), visit.column_of("sum"), strict=True)
    mixed = tuple(tuple(x / (total or 1.0) for x in row) for row, total in pairs)
    return heat(mixed, largest(trace.tensors["out"]))


def _row_done(trace: TileTrace, row: int, shares: list[list[int]]) -> Frame:
    places = trace.rows[row]
    done = trace.tensors["out"][places.start : places.stop]
    return frame(
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


def _prepared(trace: TileTrace) -> Frame:
    return frame(
        "backward",
        "delta",
        describe.delta(trace),
        figures={str(i): _kept(trace, i, 0.0) for i in range(trace.queries)},
    )


def _kept(trace: TileTrace, query: int, share: float) -> dict[str, Any]:
    kept = {"L": trace.lse[query], "D": trace.delta[query]}
    return _figures(_texts(trace, kept), [_share(share, 1.0)])


def begin(trace: TileTrace) -> Frame:
    """Return what a row shows before its first tile."""
    return _figures(_texts(trace, {"m": -math.inf, "ℓ": 0.0}), [])


def _texts(trace: TileTrace, values: dict[str, float]) -> dict[str, str]:
    """Write a row's numbers, each under its name."""
    if not _figured(trace):
        return {}
    return {name: describe.short(value) for name, value in values.items()}


def _figured(trace: TileTrace) -> bool:
    return max(trace.queries, trace.keys) <= _MOST_FIGURES


def _figures(texts: dict[str, str], parts: list[int], factor: str = "", ghost: int = 0) -> Frame:
    """Return what a row shows: numbers, the parts of its bar, a factor, and the bar before it."""
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
        "held": {**weighed(trace, visit), "parts": parts},
    }


def weighed(trace: TileTrace, visit: Visit) -> dict[str, Any]:
    """Return a turn's bytes in words, and as parts of what one tile for all would hold."""
    whole = max(turn.bytes for turn in trace.whole.values())
    shares = {"square": visit.square / whole, "all": visit.bytes / whole}
    return {"text": size(visit.bytes), **{n: round(x, 4) for n, x in shares.items()}}
