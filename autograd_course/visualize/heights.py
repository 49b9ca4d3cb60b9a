"""How high everything in a column stands: edges as straight as the order allows."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from autograd_course.visualize.layers import Layers, Place

_ROUNDS = 24
_BETWEEN_CARDS, _BETWEEN_EDGES = 22.0, 14.0
_STRAIGHT = 12.0  # how much more a passing edge wants to be straight than a card to be centered


def heights(layers: Layers, card: float) -> dict[Place, float]:
    """Return the middle of every place, the least being half its own height."""
    middle = _stacked(layers, card)
    near = _near(layers)
    forward = range(len(layers.columns))
    for turn in range(_ROUNDS):
        for c in forward if turn % 2 else reversed(forward):
            column = layers.columns[c]
            wanted = [_wanted(near[place], middle) for place in column]
            distances = _distances(column, card)
            for place, y in zip(column, _fitted(wanted, distances), strict=True):
                middle[place] = y
    for route in sorted(layers.routes, key=len) * 2:
        passing = [place for place in route if isinstance(place, tuple)]
        _straighten(passing, layers, middle, card)
    top = min(y - _height(place, card) / 2 for place, y in middle.items())
    return {place: y - top for place, y in middle.items()}


def _straighten(
    passing: Sequence[tuple[int, int]], layers: Layers, middle: dict[Place, float], card: float
) -> None:
    """Put a long edge on one height, as near to its middle as its neighbors allow."""
    lowest, highest = float("-inf"), float("inf")
    for place in passing:
        column = layers.columns[place[1]]
        at = column.index(place)
        distances = _distances(column, card)
        if at:
            lowest = max(lowest, middle[column[at - 1]] + distances[at])
        if at + 1 < len(column):
            highest = min(highest, middle[column[at + 1]] - distances[at + 1])
    if passing and lowest <= highest:
        mean = sum(middle[place] for place in passing) / len(passing)
        middle |= dict.fromkeys(passing, min(max(mean, lowest), highest))


def _stacked(layers: Layers, card: float) -> dict[Place, float]:
    middle: dict[Place, float] = {}
    for column in layers.columns:
        offsets = list(accumulate(_distances(column, card)))
        middle |= {p: y - offsets[-1] / 2 for p, y in zip(column, offsets, strict=True)}
    return middle


def _near(layers: Layers) -> dict[Place, list[tuple[Place, float]]]:
    near: dict[Place, list[tuple[Place, float]]] = {p: [] for col in layers.columns for p in col}
    for a, b in layers.links:
        weight = _STRAIGHT if isinstance(a, tuple) and isinstance(b, tuple) else 1.0
        near[a].append((b, weight))
        near[b].append((a, weight))
    return near


def _wanted(near: Sequence[tuple[Place, float]], middle: dict[Place, float]) -> float:
    total = sum(weight for _, weight in near)
    return sum(middle[place] * weight for place, weight in near) / total if near else 0.0


def _height(place: Place, card: float) -> float:
    return card if isinstance(place, int) else 0.0


def _distances(column: Sequence[Place], card: float) -> list[float]:
    """Return how far below the place above it each place stands at least; 0 for the first."""
    distances = [0.0]
    for above, below in pairwise(column):
        cards = isinstance(above, int) or isinstance(below, int)
        room = _BETWEEN_CARDS if cards else _BETWEEN_EDGES
        distances.append((_height(above, card) + _height(below, card)) / 2 + room)
    return distances


def _fitted(wanted: Sequence[float], distances: Sequence[float]) -> list[float]:
    """Return the heights nearest to the wanted ones that keep the distances (least squares).

    Less the distances this is isotonic regression, which pooling adjacent violators solves.
    """
    offsets = list(accumulate(distances))
    pools: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=True):
        mean, size = want - offset, 1
        while pools and pools[-1][0] > mean:
            other, count = pools.pop()
            mean, size = (mean * size + other * count) / (size + count), size + count
        pools.append((mean, size))
    levels = [mean for mean, size in pools for _ in range(size)]
    return [level + offset for level, offset in zip(levels, offsets, strict=True)]
