"""Where everything in a rank stands across the flow: edges as straight as the order allows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from autograd_course.visualize.flow.layers import Layers, Place

_ROUNDS = 24
_BETWEEN_EDGES = 14.0
_STRAIGHT = 12.0  # how much more a passing edge wants to be straight than a card to be centered
_LEAF = 0.1  # how much less an input stands in the way, and pulls, than what is computed


@dataclass(frozen=True)
class Room:
    """What a rank's places need: the size of each node's card, and the distance beside a card."""

    sizes: Sequence[float]
    beside: float

    def size(self, place: Place) -> float:
        """Return how much of its rank a place takes; an edge that passes takes nothing."""
        return self.sizes[place] if isinstance(place, int) else 0.0

    def distances(self, rank: Sequence[Place]) -> list[float]:
        """Return how far each place is from the one before it at least; 0 for the first."""
        distances = [0.0]
        for one, other in pairwise(rank):
            cards = isinstance(one, int) or isinstance(other, int)
            free = self.beside if cards else _BETWEEN_EDGES
            distances.append((self.size(one) + self.size(other)) / 2 + free)
        return distances


def across(layers: Layers, room: Room) -> dict[Place, float]:
    """Return the middle of every place, the drawing beginning at 0."""
    middle = _stacked(layers, room)
    leaves = _leaves(layers)
    near = _near(layers, leaves)
    forward = range(len(layers.ranks))
    for turn in range(_ROUNDS):
        for r in forward if turn % 2 else reversed(forward):
            rank = layers.ranks[r]
            wanted = [_wanted(near[place], middle) for place in rank]
            weights = [_LEAF if place in leaves else 1.0 for place in rank]
            fitted = _fitted(wanted, weights, room.distances(rank))
            middle |= zip(rank, fitted, strict=True)
    for places in _passages(layers) * 2 + _runs(layers, leaves):
        _straighten(places, layers, middle, room)
    begin = min(at - room.size(place) / 2 for place, at in middle.items())
    return {place: at - begin for place, at in middle.items()}


def _leaves(layers: Layers) -> set[Place]:
    reached = {target for _, target in layers.links}
    return {node for node in layers.reading if node not in reached}


def _passages(layers: Layers) -> list[list[Place]]:
    """Return the places that each long edge passes, short ones first."""
    routes = sorted(layers.routes, key=len)
    return [route[1:-1] for route in routes if len(route) > 2]


def _runs(layers: Layers, leaves: set[Place]) -> list[list[Place]]:
    """Return the chains of computed nodes, each feeding only the next and fed by no other."""
    computed = [(a, b) for a, b in layers.links if a not in leaves]
    uses, fed = Counter(a for a, _ in computed), Counter(b for _, b in computed)
    runs: dict[Place, list[Place]] = {}
    for a, b in sorted(computed, key=lambda link: layers.rank_of[link[0]]):
        if isinstance(a, int) and isinstance(b, int) and uses[a] == fed[b] == 1:
            run = runs.pop(a, [a])
            runs[b] = [*run, b]
    return list(runs.values())


def _straighten(
    places: Sequence[Place], layers: Layers, middle: dict[Place, float], room: Room
) -> None:
    """Put places of adjacent ranks in one line, as near to their mean as their neighbors allow."""
    least, most = float("-inf"), float("inf")
    for place in places:
        rank = layers.ranks[layers.rank_of[place]]
        at = rank.index(place)
        distances = room.distances(rank)
        if at:
            least = max(least, middle[rank[at - 1]] + distances[at])
        if at + 1 < len(rank):
            most = min(most, middle[rank[at + 1]] - distances[at + 1])
    if least <= most:
        mean = sum(middle[place] for place in places) / len(places)
        middle |= dict.fromkeys(places, min(max(mean, least), most))


def _stacked(layers: Layers, room: Room) -> dict[Place, float]:
    middle: dict[Place, float] = {}
    for rank in layers.ranks:
        offsets = list(accumulate(room.distances(rank)))
        middle |= {p: at - offsets[-1] / 2 for p, at in zip(rank, offsets, strict=True)}
    return middle


def _near(layers: Layers, leaves: set[Place]) -> dict[Place, list[tuple[Place, float]]]:
    near: dict[Place, list[tuple[Place, float]]] = {p: [] for rank in layers.ranks for p in rank}
    for a, b in layers.links:
        weight = _STRAIGHT if isinstance(a, tuple) and isinstance(b, tuple) else 1.0
        near[a].append((b, weight))
        near[b].append((a, _LEAF if a in leaves else weight))
    return near


def _wanted(near: Sequence[tuple[Place, float]], middle: dict[Place, float]) -> float:
    total = sum(weight for _, weight in near)
    return sum(middle[place] * weight for place, weight in near) / total if near else 0.0


def _fitted(
    wanted: Sequence[float], weights: Sequence[float], distances: Sequence[float]
) -> list[float]:
    """Return the positions nearest to the wanted ones that keep the distances (least squares).

    Less the distances this is isotonic regression, which pooling adjacent violators solves.
    """
    offsets = list(accumulate(distances))
    pools: list[tuple[float, float, int]] = []
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        mean, total, size = want - offset, weight, 1
        while pools and pools[-1][0] > mean:
            other, more, count = pools.pop()
            mean = (mean * total + other * more) / (total + more)
            total, size = total + more, size + count
        pools.append((mean, total, size))
    levels = [mean for mean, _, size in pools for _ in range(size)]
    return [level + offset for level, offset in zip(levels, offsets, strict=True)]
