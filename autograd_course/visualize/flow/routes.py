"""The ways of the edges between the cards."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from autograd_course.visualize.flow.directions import Flow, Point
from autograd_course.visualize.flow.layers import Layers, Place

LABEL_WIDTH, LABEL_HEIGHT = 40.0, 17.0  # the least width
ARROW = 10.0


@dataclass(frozen=True)
class Curve:
    """An edge: cubic Bézier pieces, each from the end of the one before, arrow and label.

    ``points[0]`` is the start; each following three are two control points and an end. ``arrow``
    is a triangle, its tip first; ``label`` the label's middle.
    """

    points: tuple[Point, ...]
    arrow: tuple[Point, Point, Point]
    label: Point


@dataclass(frozen=True)
class Placement:
    """Where the places are: each rank's two ends along the flow, each place's middle across it.

    ``sizes`` are the cards', along and across.
    """

    flow: Flow
    spans: Sequence[Point]
    middle: dict[Place, float]
    sizes: Sequence[Point]


def curved(layers: Layers, placed: Placement, labels: Sequence[float]) -> list[Curve]:
    """Draw every edge from its source's end to its target's begin, around what is between.

    ``labels`` are the widths of the edges' labels.
    """
    arriving = _ports(layers, placed, end=-1, part=placed.flow.ports)
    leaving = _ports(layers, placed, end=0, part=placed.flow.ports / 2)
    curves = []
    for edge, route in enumerate(layers.routes):
        stops = [
            (at, placed.middle[place] + shift)
            for place, shift in _shifts(route, leaving[edge], arriving[edge])
            for at in _ends(place, layers.rank_of[place], placed)
        ]
        curves.append(_curve(stops[1:-1], placed.flow))
    return _apart(curves, labels)


def _shifts(route: Sequence[Place], first: float, last: float) -> list[tuple[Place, float]]:
    between = [0.0] * (len(route) - 2)
    return list(zip(route, [first, *between, last], strict=True))


def _ends(place: Place, rank: int, placed: Placement) -> Point:
    """Return where a place begins and ends along the flow; an edge passes its whole rank."""
    begin, end = placed.spans[rank]
    if isinstance(place, tuple):
        return begin, end
    middle, half = (begin + end) / 2, placed.sizes[place][0] / 2
    return middle - half, middle + half


def _ports(layers: Layers, placed: Placement, end: int, part: float) -> list[float]:
    """Spread the edges at one end of each node over its side, in the order in which they come."""
    following = -2 if end else 1
    at: dict[int, list[int]] = {}
    for edge, route in enumerate(layers.routes):
        if isinstance(node := route[end], int):
            at.setdefault(node, []).append(edge)
    offset = [0.0] * len(layers.routes)
    for node, edges in at.items():
        edges.sort(key=lambda edge: (placed.middle[layers.routes[edge][following]], edge))
        for i, edge in enumerate(edges):
            offset[edge] = placed.sizes[node][1] * part * ((i + 0.5) / len(edges) - 0.5)
    return offset


def _curve(stops: Sequence[Point], flow: Flow) -> Curve:
    points = [stops[0]]
    for (a0, c0), (a1, c1) in pairwise(stops):
        bend = (a1 - a0) / 2
        points += [(a0 + bend, c0), (a1 - bend, c1), (a1, c1)]
    (a0, c0), (a1, c1) = stops[-2:]
    tip, one, other = (a1, c1), (a1 - ARROW, c1 - ARROW / 2), (a1 - ARROW, c1 + ARROW / 2)
    return Curve(
        points=tuple(_drawn(point, flow) for point in points),
        arrow=(_drawn(tip, flow), _drawn(one, flow), _drawn(other, flow)),
        label=_drawn(((a0 + a1) / 2, (c0 + c1) / 2), flow),
    )


def _drawn(point: Point, flow: Flow) -> Point:
    x, y = flow.turned(*point)
    return round(x, 1), round(y, 1)


def _apart(curves: list[Curve], widths: Sequence[float]) -> list[Curve]:
    """Move labels that would cover each other apart, downwards."""
    moved = list(curves)
    placed: list[tuple[float, float, float]] = []
    for edge in sorted(range(len(curves)), key=lambda edge: curves[edge].label[::-1]):
        (x, y), width = curves[edge].label, max(widths[edge], LABEL_WIDTH)
        while clash := [
            v for u, v, w in placed if abs(u - x) < (width + w) / 2 and abs(v - y) < LABEL_HEIGHT
        ]:
            y = round(max(clash) + LABEL_HEIGHT, 1)
        placed.append((x, y, width))
        moved[edge] = replace(curves[edge], label=(x, y))
    return moved
