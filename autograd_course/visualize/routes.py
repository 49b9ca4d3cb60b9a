"""The ways of the edges between the cards."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from autograd_course.visualize.layers import Layers, Place

CARD_HEIGHT = 62.0
LABEL_WIDTH, LABEL_HEIGHT = 40.0, 17.0

Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A card: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Curve:
    """An edge: cubic Bézier pieces, each from the end of the one before, and where its label is.

    ``points[0]`` is the start; each following three are two control points and an end.
    """

    points: tuple[Point, ...]
    label: Point


def curved(
    layers: Layers,
    spans: Sequence[Point],
    middle: dict[Place, float],
    boxes: Sequence[Box],
) -> list[Curve]:
    """Draw every edge from its source's right side to its target's left, around what is between.

    ``spans`` are the left and right end of every column, ``middle`` the height of every place.
    """
    arriving = _ports(layers, middle, end=-1, reach=0.6)
    leaving = _ports(layers, middle, end=0, reach=0.3)
    curves = []
    for edge, route in enumerate(layers.routes):
        source, target = (boxes[end] for end in (route[0], route[-1]) if isinstance(end, int))
        first = (source.x + source.width, middle[route[0]] + leaving[edge])
        last = (target.x, middle[route[-1]] + arriving[edge])
        through = [(spans[p[1]], middle[p]) for p in route if isinstance(p, tuple)]
        stops = [first, *((x, y) for span, y in through for x in span), last]
        curves.append(_curve(stops))
    return _apart(curves)


def _ports(layers: Layers, middle: dict[Place, float], end: int, reach: float) -> list[float]:
    """Spread the edges at one end of each node over its side, in the order in which they come."""
    following = -2 if end else 1
    at: dict[Place, list[int]] = {}
    for edge, route in enumerate(layers.routes):
        at.setdefault(route[end], []).append(edge)
    offset = [0.0] * len(layers.routes)
    for edges in at.values():
        edges.sort(key=lambda edge: (middle[layers.routes[edge][following]], edge))
        for i, edge in enumerate(edges):
            offset[edge] = CARD_HEIGHT * reach * ((i + 0.5) / len(edges) - 0.5)
    return offset


def _curve(stops: Sequence[Point]) -> Curve:
    points = [stops[0]]
    for (x0, y0), (x1, y1) in pairwise(stops):
        bend = (x1 - x0) / 2
        points += [(x0 + bend, y0), (x1 - bend, y1), (x1, y1)]
    (x0, y0), (x1, y1) = stops[-2:]
    rounded = tuple((round(x, 1), round(y, 1)) for x, y in points)
    return Curve(rounded, (round((x0 + x1) / 2, 1), round((y0 + y1) / 2, 1)))


def _apart(curves: list[Curve]) -> list[Curve]:
    """Move labels that would cover each other apart, downwards."""
    moved = list(curves)
    placed: list[Point] = []
    for edge in sorted(range(len(curves)), key=lambda edge: curves[edge].label[::-1]):
        x, y = curves[edge].label
        while clash := [
            v for u, v in placed if abs(u - x) < LABEL_WIDTH and abs(v - y) < LABEL_HEIGHT
        ]:
            y = round(max(clash) + LABEL_HEIGHT, 1)
        placed.append((x, y))
        moved[edge] = Curve(curves[edge].points, (x, y))
    return moved
