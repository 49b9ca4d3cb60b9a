"""Ranks of a graph, and the order inside each that makes few edges cross.

A rank is a column of a drawing from left to right, and a row of one from top to bottom.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

# A place in a rank: a node's number, or (edge, rank) where an edge only passes through.
Place = int | tuple[int, int]
_SWEEPS = 12


@dataclass(frozen=True)
class Layers:
    """``ranks`` list the places in their order; ``links`` join places of adjacent ranks.

    ``routes[edge]`` are the places along an edge, its two ends included.
    """

    ranks: list[list[Place]]
    links: list[tuple[Place, Place]]
    routes: list[list[Place]]

    @cached_property
    def rank_of(self) -> dict[Place, int]:
        """The rank of every place."""
        return {place: r for r, rank in enumerate(self.ranks) for place in rank}

    @property
    def reading(self) -> tuple[int, ...]:
        """The nodes rank by rank: in the order in which the drawing is read."""
        return tuple(place for rank in self.ranks for place in rank if isinstance(place, int))


def layered(count: int, edges: Sequence[tuple[int, int]]) -> Layers:
    """Put nodes ``0 … count - 1``, topologically numbered, into ordered ranks."""
    rank = _ranks(count, edges)
    routes: list[list[Place]] = [
        [source, *((edge, c) for c in range(rank[source] + 1, rank[target])), target]
        for edge, (source, target) in enumerate(edges)
    ]
    ranks: list[list[Place]] = [[] for _ in range(max(rank, default=0) + 1)]
    for node in range(count):
        ranks[rank[node]].append(node)
    for place in (place for route in routes for place in route):
        if isinstance(place, tuple):
            ranks[place[1]].append(place)
    links = [link for route in routes for link in pairwise(route)]
    return Layers(_ordered(ranks, links), links, routes)


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Place every node as near to the end as the longest path behind it allows."""
    behind = [0] * count
    for source, target in sorted(edges, key=lambda edge: -edge[1]):
        behind[source] = max(behind[source], behind[target] + 1)
    longest = max(behind, default=0)
    return [longest - steps for steps in behind]


def _ordered(ranks: list[list[Place]], links: list[tuple[Place, Place]]) -> list[list[Place]]:
    sources, targets = _neighbors(links)
    best, fewest = ranks, crossings(ranks, sources)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 1
        ranks = _swept(ranks, sources if forward else targets, forward)
        ranks = _exchanged(ranks, sources, targets)
        if (crossed := crossings(ranks, sources)) < fewest:
            best, fewest = ranks, crossed
    return best


Neighbors = dict[Place, list[Place]]


def _neighbors(links: list[tuple[Place, Place]]) -> tuple[Neighbors, Neighbors]:
    sources: Neighbors = {}
    targets: Neighbors = {}
    for source, target in links:
        sources.setdefault(target, []).append(source)
        targets.setdefault(source, []).append(target)
    return sources, targets


def _swept(ranks: list[list[Place]], toward: Neighbors, forward: bool) -> list[list[Place]]:
    """Sort each rank by the mean position of its neighbors in the rank before."""
    ranks = [list(rank) for rank in ranks]
    order = range(1, len(ranks)) if forward else range(len(ranks) - 2, -1, -1)
    for c in order:
        fixed = {place: i for i, place in enumerate(ranks[c - 1 if forward else c + 1])}
        own = {place: i for i, place in enumerate(ranks[c])}

        def center(
            place: Place, fixed: dict[Place, int] = fixed, own: dict[Place, int] = own
        ) -> float:
            at = [fixed[neighbor] for neighbor in toward.get(place, ())]
            return sum(at) / len(at) if at else own[place]

        ranks[c].sort(key=center)
    return ranks


def _exchanged(
    ranks: list[list[Place]], sources: Neighbors, targets: Neighbors
) -> list[list[Place]]:
    """Exchange neighbors in a rank as long as that undoes a crossing."""
    ranks = [list(rank) for rank in ranks]
    for c, rank in enumerate(ranks):
        at = {p: i for side in (c - 1, c + 1) if 0 <= side < len(ranks)
              for i, p in enumerate(ranks[side])}  # fmt: skip
        for i in range(len(rank) - 1):
            first, second = rank[i], rank[i + 1]
            gain = sum(
                _crossed(side.get(first, ()), side.get(second, ()), at)
                - _crossed(side.get(second, ()), side.get(first, ()), at)
                for side in (sources, targets)
            )
            if gain > 0:
                rank[i], rank[i + 1] = second, first
    return ranks


def _crossed(first: Sequence[Place], second: Sequence[Place], at: dict[Place, int]) -> int:
    return sum(at[a] > at[b] for a in first for b in second)


def crossings(ranks: list[list[Place]], sources: Neighbors) -> int:
    """Count the crossings of the links between adjacent ranks."""
    total = 0
    for before, rank in pairwise(ranks):
        at = {place: i for i, place in enumerate(before)}
        ends = [sources.get(place, []) for place in rank]
        total += sum(
            _crossed(ends[i], ends[j], at)
            for i in range(len(ends))
            for j in range(i + 1, len(ends))
        )
    return total
