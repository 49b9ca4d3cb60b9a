"""Describe tiled attention in words: a few sentences for each step, and a summary."""

import math
from collections.abc import Sequence
from typing import Any

from autograd_course.visualize.kit.formatting import number, size
from autograd_course.visualize.tiles.trace import TileTrace, Visit, dot

Json = dict[str, Any]
_NOISE = 1e-6  # relative; smaller sums count as zero, because they are only rounding noise
_LARGE = 8192  # the memory is also computed for this many queries and keys


def figure(value: float, digits: int = 3) -> str:
    """Format a number with few digits, so that the text is the same on every machine."""
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    return number(0.0 if abs(value) < _NOISE else value, digits).replace("-", "−")


def short(value: float) -> str:
    """Format a number in about four characters, for a cell."""
    if abs(value) >= 100 or math.isinf(value):
        return figure(value, 2)
    return (f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}").replace("-", "−")


def span(what: str, places: range) -> str:
    """Return text such as ``query 4`` or ``queries 4–5``."""
    plural = {"query": "queries", "key": "keys"}[what]
    first, last = places[0], places[-1]
    return f"{what} {first}" if first == last else f"{plural} {first}–{last}"


def headline(trace: TileTrace) -> str:
    """Return a headline that names the function and its tiles."""
    count = len(trace.rows) * len(trace.columns)
    features = f"{trace.features} feature{'s' * (trace.features != 1)}"
    tiles = f"{count} tile{'s' * (count != 1)} of {trace.block[0]}×{trace.block[1]}"
    skipped = f" ({len(trace.skipped)} above the diagonal are skipped)"
    return (
        f"Tiled{' causal' * trace.causal} attention: {trace.queries} queries × {trace.keys} keys "
        f"with {features}, in {tiles}{skipped if trace.skipped else ''}."
    )


def given(trace: TileTrace) -> str:
    """Describe the first step, which shows the input tensors."""
    return (
        f"{headline(trace)} For each row, forward stores a running maximum m and a running sum ℓ. "
        "It stores the scores of only one tile at a time."
    )


def meeting(trace: TileTrace, visit: Visit, before: Visit | None) -> str:
    """Describe a tile in forward. ``before`` is the visit to the previous tile in the row."""
    told = f"{_row(trace, visit, before, _telling(visit))}{_rest(visit, before)}"
    return f"{_tile(trace, visit)} {told}"


def _tile(trace: TileTrace, visit: Visit) -> str:
    queries, keys = trace.rows[visit.row], trace.columns[visit.column]
    return f"This tile has {span('query', queries)} and {span('key', keys)}."


def _telling(visit: Visit) -> int:
    """Choose the row to describe: the row with the smallest nonzero rescaling factor."""
    factors = visit.column_of("rescale")
    return min(range(len(factors)), key=lambda place: factors[place] or 2.0)


def _rest(visit: Visit, before: Visit | None) -> str:
    factors = visit.column_of("rescale")
    if before is None or len(factors) == 1:
        return ""
    rose = sum(0 < factor < 1 for factor in factors)
    return f" m rises in {rose} of {len(factors)} rows." if rose else ""


def _row(trace: TileTrace, visit: Visit, before: Visit | None, place: int) -> str:
    name = f"Row {trace.rows[visit.row][place]}"
    high, total = visit.column_of("max")[place], visit.column_of("sum")[place]
    added = sum(visit.of("weights")[place])
    if added == 0:
        return f"{name} is fully masked in this tile."
    old = before.column_of("max")[place] if before else -math.inf
    if math.isinf(old):
        return f"{name} starts with m = {figure(high)} and ℓ = {figure(total)}."
    if high == old:
        return f"{name}: m stays {figure(high)}, and ℓ grows by {figure(added)} to {figure(total)}."
    factor = visit.column_of("rescale")[place]
    return (
        f"{name}: m rises from {figure(old)} to {figure(high)}, so forward multiplies ℓ and O by "
        f"exp({figure(old)} {_minus(high)}) = {figure(factor)}. It recomputes nothing. "
        f"Then the tile adds {figure(added)} to ℓ, which is now {figure(total)}."
    )


def finished_row(trace: TileTrace, row: int) -> str:
    """Describe the end of a row of tiles."""
    places = trace.rows[row]
    kept = [figure(trace.lse[place]) for place in places]
    which = kept[0] if len(kept) == 1 else f"{kept[0]} … {kept[-1]}"
    which = " and ".join(kept) if len(kept) == 2 else which
    verb = "are" if len(places) > 1 else "is"
    return (
        f"{_start(span('query', places))} {verb} done. Forward divides O by ℓ once. "
        f"Instead of m and ℓ, it saves L = m + log ℓ: {which}."
    )


def delta(trace: TileTrace) -> str:
    """Describe how backward prepares ``delta``, for a query that is not fully masked."""
    query = next((i for i, row in enumerate(trace.visible) if any(row)), 0)
    return (
        "The loss is the sum of O, so ∂O is 1 everywhere. Backward computes D = rowsum(∂O∘O), "
        f"which is {figure(trace.delta[query])} for query {query}. The backward of softmax needs "
        f"rowsum(P∘∂P) over all keys, which is also {figure(trace.delta_by_weights[query])}. So "
        "backward never needs a whole row of P."
    )


def meeting_back(trace: TileTrace, visit: Visit) -> str:
    """Describe a tile in backward, using the pair with the largest weight."""
    rows, columns = trace.rows[visit.row], trace.columns[visit.column]
    head = _tile(trace, visit)
    weights = visit.of("weights")
    i, j = max(
        ((i, j) for i in range(len(rows)) for j in range(len(columns))),
        key=lambda place: weights[place[0]][place[1]],
    )
    if weights[i][j] == 0:
        return f"{head} All its pairs are masked."
    score, lse = visit.of("scores")[i][j], visit.column_of("lse")[i]
    grad = dot(visit.of("grad_out")[i], visit.of("v")[j])
    found = visit.of("grad_scores")[i][j]
    return (
        f"{head} Backward recomputes P. For query {rows[i]} and key {columns[j]}, "
        f"P = exp(S − L) = exp({figure(score)} {_minus(lse)}) = {figure(weights[i][j])} and "
        f"∂S = P·(∂P − D) = {figure(weights[i][j])}·({figure(grad)} "
        f"{_minus(visit.column_of('delta')[i])}) = {figure(found)}."
    )


def finished_column(trace: TileTrace, column: int) -> str:
    """Describe the end of a column of tiles."""
    places = trace.columns[column]
    verb, whose = ("are", "their") if len(places) > 1 else ("is", "its")
    return (
        f"{_start(span('key', places))} {verb} done: {whose} ∂K and ∂V are complete. "
        "∂Q is complete after the last column of tiles, because every column adds to it."
    )


def end(trace: TileTrace) -> str:
    """Describe the final result."""
    agreement = "agree" if trace.agrees else "do NOT agree"
    pairs = trace.queries * trace.keys
    return (
        f"All gradients are complete. O, ∂Q, ∂K and ∂V {agreement} with full attention. The "
        f"largest tensor of a tile had {trace.largest} elements. The full score matrix would have "
        f"{pairs}."
    )


CAPTIONS = {
    "forward": "The tile shows the scores S, shaded by their weights exp(S − m). The bars show "
    "what each tile added to ℓ. The dashed outline is ℓ before rescaling. A dash marks a masked "
    "pair.",
    "backward": "The tile shows the recomputed P = exp(S − L). The bars show the sum of P so far, "
    "which reaches 1 at the last tile. ∂ marks a gradient.",
}


def memory(trace: TileTrace) -> str:
    """Describe which part of the memory grows with the sequence length."""
    largest = size(2 * _LARGE * _LARGE * trace.itemsize)
    turn = size(max(visit.bytes for visit in (*trace.forward, *trace.backward)))
    return (
        f"With {_LARGE} queries and keys, a tile would still need at most {turn}. "
        f"The full S and its weights would need {largest} per head."
    )


def _minus(value: float) -> str:
    """Return ``− 2`` or, for a negative number, ``+ 2``."""
    return f"+ {figure(-value)}" if value < 0 else f"− {figure(value)}"


def _start(text: str) -> str:
    return text[0].upper() + text[1:]


# --------------------------------------------------------------------------------------------------
# One step of a view as plain text.
# --------------------------------------------------------------------------------------------------

_MOST_ROWS = 16  # the maximum number of items that are listed individually


def describe(view: Json, now: Json, step: int) -> str:
    """Describe a step: its number, the order of the tiles, the numbers in each row, and the memory.

    ``now`` is the frame of this step, combined with the frames of the earlier steps.
    """
    lines = [view["title"]]
    lines.append(f"Step {step} of {len(view['frames']) - 1}, {now['phase']}: {now['text']}")
    for phase in ("forward", "backward"):
        tiles = [f["tile"] for f in view["frames"] if f["phase"] == phase and f["tile"]]
        lines.append(f"Order of the tiles in {phase}: {_places(tiles)}.")
    if now["figures"] and len(view["hidden"]) <= _MOST_ROWS:
        back = now["phase"] in ("backward", "end")
        rows = (now["figures"].get(str(query)) for query, _ in enumerate(view["hidden"]))
        lines += [f"  row {query}: {_figures(row, back)}" for query, row in enumerate(rows)]
    if held := now["held"]:
        whole = view["whole"]["backward" if now["phase"] == "backward" else "forward"]["text"]
        lines.append(f"In memory at once: {held['text']} ({held['parts']}). Full matrix: {whole}.")
    return "\n".join([*lines, view["memory"]])


def _places(tiles: Sequence[Sequence[int]]) -> str:
    names = [f"({i}, {j})" for i, j in tiles]
    return " ".join(names if len(names) <= _MOST_ROWS else [*names[:5], "…", *names[-3:]])


def _figures(row: Json | None, back: bool) -> str:
    if row is None:
        return "not started"
    texts, parts = row["texts"], row["parts"]
    words = ", ".join(f"{name} = {text}" for name, text in texts.items())
    words = f"done, {words}" if list(texts) == ["L"] else words
    factor = f", rescaled {row['factor']}" if row["factor"] else ""
    if back:
        return f"{words}, sum of P so far {parts[0] / 10:.0f}%"
    shares = " + ".join(f"{100 * part / (sum(parts) or 1):.0f}%" for part in parts)
    return f"{words}{factor} (shares of the tiles: {shares})"
