"""A tall drawing on a page: cut between its ranks into columns, each going on where one ended."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from autograd_course.visualize.flow.layout import MARGIN, Box, Layout
from autograd_course.visualize.flow.routes import LABEL_WIDTH, Curve

BETWEEN, FOOT = 24.0, 36.0  # pixels between columns, and below them
TURN, TURN_SIZE = "continued →", 9.0  # at the foot of a column; pixels of its text
TURN_RISE, TURN_ASIDE = 22.0, 4.0  # its place, from the foot and from the next column
RULE_TOP = 8.0  # from the head of the columns to the line between them
WIDEST = 1200.0  # what a page shows without shrinking the text
_TALL, _COLUMN = 1400.0, 1000.0  # a drawing taller than this is cut; a column's height
_RISE, _FALL = 13.0, 6.0  # a card with its badge and arrowhead above it, and the card behind it
_HALF_LABEL = 9.0


@dataclass(frozen=True)
class Column:
    """The part of a drawing that stands in one column."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        """Its width in pixels."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """Its height in pixels."""
        return self.bottom - self.top

    def holds(self, box: Box) -> bool:
        """Whether a card stands in it."""
        return self.top <= box.y < self.bottom

    def labels(self, curve: Curve) -> bool:
        """Whether an edge's label stands in it."""
        return self.top <= curve.label[1] < self.bottom

    def meets(self, curve: Curve) -> bool:
        """Whether an edge begins, ends, or passes in it."""
        heights = [y for _, y in (*curve.points, *curve.arrow)]
        return min(heights) < self.bottom and max(heights) > self.top


@dataclass(frozen=True)
class Sheet:
    """A drawing with its columns: one, unless it is tall and narrow."""

    drawn: Layout

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns, from left to right: as many as the height asks for and the width allows."""
        drawn = self.drawn
        tall = drawn.downward and drawn.height > _TALL
        asked = math.ceil(drawn.height / _COLUMN) if tall else 1
        for count in range(asked, 1, -1):
            columns = tuple(_cropped(drawn, *part) for part in _parts(drawn, count))
            if _together(columns) <= WIDEST:
                return columns
        return (Column(0.0, 0.0, drawn.width, drawn.height),)

    @property
    def placed(self) -> Iterator[tuple[float, Column]]:
        """Each column, and where its left side stands."""
        left = 0.0
        for column in self.columns:
            yield left, column
            left += column.width + BETWEEN

    @property
    def turns(self) -> list[float]:
        """Where the middle between a column and the next one stands."""
        return [left - BETWEEN / 2 for left, _ in self.placed][1:]

    @property
    def width(self) -> float:
        """The width of all columns."""
        return _together(self.columns)

    @property
    def height(self) -> float:
        """The height of the longest column, and of what stands below several."""
        foot = FOOT if len(self.columns) > 1 else 0.0
        return max(column.height for column in self.columns) + foot


def _together(columns: Sequence[Column]) -> float:
    return sum(column.width for column in columns) + BETWEEN * (len(columns) - 1)


Part = tuple[float, float]  # from where to where a column reaches


def _parts(drawn: Layout, count: int) -> list[Part]:
    """Cut the drawing into at most ``count`` parts, about equally long."""
    cuts, height = _cuts(drawn), drawn.height / count
    while len(found := list(_filled(cuts, height))) > count:
        height *= 1.02
    return found


def _cuts(drawn: Layout) -> list[float]:
    """Return where the drawing can be cut without cutting a card or a label, and its end."""
    taken = [(box.y - _RISE, box.y + box.height + _FALL) for box in drawn.boxes]
    taken += [(c.label[1] - _HALF_LABEL, c.label[1] + _HALF_LABEL) for c in drawn.curves]
    cuts, reached = [], 0.0
    for top, bottom in sorted(taken):
        if top >= reached > 0.0:
            cuts.append(top)
        reached = max(reached, bottom)
    return [*cuts, drawn.height]


def _filled(cuts: Sequence[float], height: float) -> Iterator[Part]:
    """Fill parts with what is between two cuts, none longer than ``height`` if it can be."""
    top = last = 0.0
    for cut in cuts:
        if cut - top > height and last > top:
            yield top, last
            top = last
        last = cut
    yield top, last


def _cropped(drawn: Layout, top: float, bottom: float) -> Column:
    """Return a part as wide as what is in it: cards, badges, labels and passing edges."""
    cards = [box for box in drawn.boxes if top <= box.y < bottom]
    badges = [box for box in drawn.badges if top <= box.y < bottom]
    ends = [end for box in (*cards, *badges) for end in (box.x, box.x + box.width + _FALL)]
    inside = [x for curve in drawn.curves for x, y in curve.points if top <= y <= bottom]
    labels = [c.label[0] for c in drawn.curves if top <= c.label[1] < bottom]
    ends += [*inside, *(x + side * LABEL_WIDTH for x in labels for side in (-0.5, 0.5))]
    ends = ends or [0.0, drawn.width]
    return Column(max(0.0, min(ends) - MARGIN), top, min(drawn.width, max(ends) + MARGIN), bottom)
