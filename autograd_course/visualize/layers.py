"""Columns of a graph, and the order inside each that makes few edges cross."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

# A place in a column: a node's number, or (edge, column) where an edge only passes through.
Place = int | tuple[int, int]
_SWEEPS = 12


@dataclass(frozen=True)
class Layers:
    """``columns`` list the places from top to bottom; ``links`` join places of adjacent columns.

    ``routes[edge]`` are the places along an edge, its two ends included.
    """

    columns: list[list[Place]]
    links: list[tuple[Place, Place]]
    routes: list[list[Place]]


def layered(count: int, edges: Sequence[tuple[int, int]]) -> Layers:
    """Put nodes ``0 … count - 1``, topologically numbered, into ordered columns."""
    column = _columns(count, edges)
    routes: list[list[Place]] = [
        [source, *((edge, c) for c in range(column[source] + 1, column[target])), target]
        for edge, (source, target) in enumerate(edges)
    ]
    columns: list[list[Place]] = [[] for _ in range(max(column, default=0) + 1)]
    for node in range(count):
        columns[column[node]].append(node)
    for place in (place for route in routes for place in route):
        if isinstance(place, tuple):
            columns[place[1]].append(place)
    links = [link for route in routes for link in pairwise(route)]
    return Layers(_ordered(columns, links), links, routes)


def _columns(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Place every node as near to the end as the longest path behind it allows."""
    behind = [0] * count
    for source, target in sorted(edges, key=lambda edge: -edge[1]):
        behind[source] = max(behind[source], behind[target] + 1)
    longest = max(behind, default=0)
    return [longest - steps for steps in behind]


def _ordered(columns: list[list[Place]], links: list[tuple[Place, Place]]) -> list[list[Place]]:
    left, right = _neighbors(links)
    best, fewest = columns, crossings(columns, left)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 1
        columns = _swept(columns, left if forward else right, forward)
        columns = _exchanged(columns, left, right)
        if (crossed := crossings(columns, left)) < fewest:
            best, fewest = columns, crossed
    return best


Neighbors = dict[Place, list[Place]]


def _neighbors(links: list[tuple[Place, Place]]) -> tuple[Neighbors, Neighbors]:
    left: Neighbors = {}
    right: Neighbors = {}
    for source, target in links:
        left.setdefault(target, []).append(source)
        right.setdefault(source, []).append(target)
    return left, right


def _swept(columns: list[list[Place]], toward: Neighbors, forward: bool) -> list[list[Place]]:
    """Sort each column by the mean position of its neighbors in the column before."""
    columns = [list(column) for column in columns]
    order = range(1, len(columns)) if forward else range(len(columns) - 2, -1, -1)
    for c in order:
        fixed = {place: i for i, place in enumerate(columns[c - 1 if forward else c + 1])}
        own = {place: i for i, place in enumerate(columns[c])}

        def center(
            place: Place, fixed: dict[Place, int] = fixed, own: dict[Place, int] = own
        ) -> float:
            at = [fixed[neighbor] for neighbor in toward.get(place, ())]
            return sum(at) / len(at) if at else own[place]

        columns[c].sort(key=center)
    return columns


def _exchanged(columns: list[list[Place]], left: Neighbors, right: Neighbors) -> list[list[Place]]:
    """Exchange neighbors in a column as long as that undoes a crossing."""
    columns = [list(column) for column in columns]
    for c, column in enumerate(columns):
        at = {p: i for side in (c - 1, c + 1) if 0 <= side < len(columns)
              for i, p in enumerate(columns[side])}  # fmt: skip
        for i in range(len(column) - 1):
            above, below = column[i], column[i + 1]
            gain = sum(
                _crossed(side.get(above, ()), side.get(below, ()), at)
                - _crossed(side.get(below, ()), side.get(above, ()), at)
                for side in (left, right)
            )
            if gain > 0:
                column[i], column[i + 1] = below, above
    return columns


def _crossed(above: Sequence[Place], below: Sequence[Place], at: dict[Place, int]) -> int:
    return sum(at[a] > at[b] for a in above for b in below)


def crossings(columns: list[list[Place]], left: Neighbors) -> int:
    """Count the crossings of the links between adjacent columns."""
    total = 0
    for before, column in pairwise(columns):
        at = {place: i for i, place in enumerate(before)}
        ends = [left.get(place, []) for place in column]
        total += sum(
            _crossed(ends[i], ends[j], at)
            for i in range(len(ends))
            for j in range(i + 1, len(ends))
        )
    return total
