"""A tiled attention in words: a sentence or two a step, and all that the picture shows."""

import math
from collections.abc import Sequence
from typing import Any

from autograd_course.visualize.kit.formatting import number, size
from autograd_course.visualize.tiles.trace import TileTrace, Visit, dot

Json = dict[str, Any]
_NOISE = 1e-6  # of sums that are zero but for rounding
_LARGE = 8192  # queries and keys for which the memory is told, too


def figure(value: float, digits: int = 3) -> str:
    """Write a number with few significant digits, so that none depends on the machine."""
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    return number(0.0 if abs(value) < _NOISE else value, digits).replace("-", "−")


def short(value: float) -> str:
    """Write a number in about four characters, for a cell."""
    if abs(value) >= 100 or math.isinf(value):
        return figure(value, 2)
    return (f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}").replace("-", "−")


def span(what: str, places: range) -> str:
    """Write ``query 4`` or ``queries 4–5``."""
    plural = {"query": "queries", "key": "keys"}[what]
    first, last = places[0], places[-1]
    return f"{what} {first}" if first == last else f"{plural} {first}–{last}"


def headline(trace: TileTrace) -> str:
    """Say what is tiled, and how."""
    count = len(trace.rows) * len(trace.columns)
    features = f"{trace.features} feature{'s' * (trace.features != 1)}"
    tiles = f"{count} tile{'s' * (count != 1)} of {trace.block[0]}×{trace.block[1]}"
    skipped = f", {len(trace.skipped)} of them above the diagonal and skipped"
    return (
        f"Tiled{' causal' * trace.causal} attention: {trace.queries} queries × {trace.keys} keys "
        f"of {features} in {tiles}{skipped if trace.skipped else ''}."
    )


def given(trace: TileTrace) -> str:
    """Tell the beginning."""
    return (
        f"{headline(trace)} Each row will hold its running maximum m and running sum ℓ, "
        "and the tile's scores only while its turn lasts."
    )


def meeting(trace: TileTrace, visit: Visit, before: Visit | None) -> str:
    """Tell a tile's turn in forward; ``before`` is the turn of the tile at its left."""
    rows = trace.rows[visit.row]
    head = f"{_start(span('query', rows))} meet{'s' * (len(rows) == 1)} "
    head += f"{span('key', trace.columns[visit.column])}."
    return f"{head} {_row(trace, visit, before, _telling(visit))}{_rest(visit, before)}"


def _telling(visit: Visit) -> int:
    """Choose the row of a tile to tell: the one whose past shrinks most, but not to nothing."""
    factors = visit.column_of("rescale")
    return min(range(len(factors)), key=lambda place: factors[place] or 2.0)


def _rest(visit: Visit, before: Visit | None) -> str:
    factors = visit.column_of("rescale")
    if before is None or len(factors) == 1:
        return ""
    rose = sum(0 < factor < 1 for factor in factors)
    return f" In {rose} of {len(factors)} rows m rises." if rose else ""


def _row(trace: TileTrace, visit: Visit, before: Visit | None, place: int) -> str:
    name = f"Row {trace.rows[visit.row][place]}"
    high, total = visit.column_of("max")[place], visit.column_of("sum")[place]
    added = sum(visit.of("weights")[place])
    if added == 0:
        return f"{name} may see no key here."
    old = before.column_of("max")[place] if before else -math.inf
    if math.isinf(old):
        return f"{name} begins with m = {figure(high)} and ℓ = {figure(total)}."
    if high == old:
        return f"{name}: m stays {figure(high)}, and ℓ grows by {figure(added)} to {figure(total)}."
    factor = visit.column_of("rescale")[place]
    return (
        f"{name}: m rises from {figure(old)} to {figure(high)}, so ℓ and O so far are multiplied "
        f"by exp({figure(old)} {_minus(high)}) = {figure(factor)}; nothing is computed again. "
        f"The tile adds {figure(added)}: ℓ = {figure(total)}."
    )


def finished_row(trace: TileTrace, row: int) -> str:
    """Tell that a row of tiles is through."""
    places = trace.rows[row]
    kept = [figure(trace.lse[place]) for place in places]
    which = kept[0] if len(kept) == 1 else f"{kept[0]} … {kept[-1]}"
    which = " and ".join(kept) if len(kept) == 2 else which
    verb = "are" if len(places) > 1 else "is"
    return (
        f"{_start(span('query', places))} {verb} done: O is divided by ℓ once, and of m and ℓ only "
        f"L = m + log ℓ stays: {which}."
    )


def delta(trace: TileTrace) -> str:
    """Tell the preparation of backward, with a query that sees a key."""
    query = next((i for i, row in enumerate(trace.visible) if any(row)), 0)
    return (
        "Backward, for the loss that sums O: ∂O is 1 everywhere. D = rowsum(∂O∘O) is "
        f"{figure(trace.delta[query])} for query {query}. The softmax asks for rowsum(P∘∂P) over "
        f"all keys: {figure(trace.delta_by_weights[query])}, the same. So no row of P is needed."
    )


def meeting_back(trace: TileTrace, visit: Visit) -> str:
    """Tell a tile's turn in backward, with the pair that weighs most."""
    rows, columns = trace.rows[visit.row], trace.columns[visit.column]
    head = f"{_start(span('key', columns))} meet{'s' * (len(columns) == 1)} {span('query', rows)}."
    weights = visit.of("weights")
    i, j = max(
        ((i, j) for i in range(len(rows)) for j in range(len(columns))),
        key=lambda place: weights[place[0]][place[1]],
    )
    if weights[i][j] == 0:
        return f"{head} No pair here takes part."
    score, lse = visit.of("scores")[i][j], visit.column_of("lse")[i]
    grad = dot(visit.of("grad_out")[i], visit.of("v")[j])
    found = visit.of("grad_scores")[i][j]
    return (
        f"{head} P is rebuilt: of query {rows[i]} and key {columns[j]} it is "
        f"exp(S − L) = exp({figure(score)} {_minus(lse)}) = {figure(weights[i][j])}. "
        f"∂S = P·(∂P − D) = {figure(weights[i][j])}·({figure(grad)} "
        f"{_minus(visit.column_of('delta')[i])}) = {figure(found)}."
    )


def finished_column(trace: TileTrace, column: int) -> str:
    """Tell that a column of tiles is through."""
    places = trace.columns[column]
    whose = "Their" if len(places) > 1 else "Its"
    verb = "are" if len(places) > 1 else "is"
    return (
        f"{_start(span('key', places))} {verb} done. {whose} ∂K and ∂V are complete; ∂Q is not, "
        "every column of tiles adds to it."
    )


def end(trace: TileTrace) -> str:
    """Tell what came out."""
    agreement = "agree" if trace.agrees else "do NOT agree"
    pairs = trace.queries * trace.keys
    return (
        f"All gradients are complete. O, ∂Q, ∂K and ∂V {agreement} with full attention. The "
        f"largest tensor of a turn had {trace.largest} elements, the score matrix has {pairs}."
    )


CAPTIONS = {
    "forward": "In the tile: scores S, shaded by their weights exp(S − m). Bars: what each tile "
    "gave to ℓ; dashed: ℓ before it was rescaled. A dash marks a pair that takes no part.",
    "backward": "In the tile: P = exp(S − L), rebuilt. Bars: the sum of P so far, 1 when all keys "
    "are through. ∂ marks gradients.",
}


def memory(trace: TileTrace) -> str:
    """Tell what grows with the sequence, and what does not."""
    largest = size(2 * _LARGE * _LARGE * trace.itemsize)
    turn = size(max(visit.bytes for visit in (*trace.forward, *trace.backward)))
    return (
        f"With {_LARGE} queries and keys, a turn would still hold at most {turn}; "
        f"whole, S and its weights would take {largest} a head."
    )


def _minus(value: float) -> str:
    """Write ``− 2`` or, for a negative number, ``+ 2``."""
    return f"+ {figure(-value)}" if value < 0 else f"− {figure(value)}"


def _start(text: str) -> str:
    return text[0].upper() + text[1:]


# --------------------------------------------------------------------------------------------------
# One step of a view as plain text: all that its picture shows.
# --------------------------------------------------------------------------------------------------

_MOST_ROWS = 16  # that are listed one by one


def describe(view: Json, now: Json, step: int) -> str:
    """Tell a step: where it stands, the order of the tiles, every row's figures, the memory.

    ``now`` is the frame of the step with all that the steps before it have left.
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
        lines.append(f"Alive at once: {held['text']} ({held['parts']}); as one tile {whole}.")
    return "\n".join([*lines, view["memory"]])


def _places(tiles: Sequence[Sequence[int]]) -> str:
    names = [f"({i}, {j})" for i, j in tiles]
    return " ".join(names if len(names) <= _MOST_ROWS else [*names[:5], "…", *names[-3:]])


def _figures(row: Json | None, back: bool) -> str:
    if row is None:
        return "not begun"
    texts, parts = row["texts"], row["parts"]
    words = ", ".join(f"{name} = {text}" for name, text in texts.items())
    words = f"done, {words}" if list(texts) == ["L"] else words
    factor = f", rescaled {row['factor']}" if row["factor"] else ""
    if back:
        return f"{words}, sum of P so far {parts[0] / 10:.0f}%"
    shares = " + ".join(f"{100 * part / (sum(parts) or 1):.0f}%" for part in parts)
    return f"{words}{factor} (by tiles: {shares})"
