"""Where everything stands: a layered drawing, shared by picture and widget."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from autograd_course.visualize.flow.across import Room, across
from autograd_course.visualize.flow.directions import DOWN, RIGHT, Flow, Point
from autograd_course.visualize.flow.heat import cell_size
from autograd_course.visualize.flow.layers import Layers, layered
from autograd_course.visualize.flow.routes import LABEL_HEIGHT, Curve, Placement, curved
from autograd_course.visualize.flow.script import Card, Script
from autograd_course.visualize.flow.trace import Trace

# Pixels. A character of the widest font that may stand in for ours is 0.61 of its size wide.
TITLE, LINE = 13.0, 12.0
NARROWEST, PADDING, CARD_HEIGHT = 92.0, 20.0, 67.0
BADGE_TEXT, BADGE_HEIGHT, BADGE_RISE = 12.0, 16.0, 12.0
MAP_TOP, MAP_GAP, MAP_BELOW = 62.0, 18.0, 8.0  # heat maps stand below the texts, beside each other
MARGIN = 20.0
_WIDTH_OF_LETTER = 0.61
# A rank is some 170 pixels wide: of more than these, a page of 1000 pixels shows no legible text.
_MOST_COLUMNS = 9


@dataclass(frozen=True)
class Box:
    """A card or badge: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """``boxes[i]`` and ``badges[i]`` belong to node ``i``, ``curves[j]`` to edge ``j``.

    ``reading`` lists the nodes in the order in which the drawing is read, which is topological.
    ``downward`` says that it runs from top to bottom.
    """

    width: float
    height: float
    boxes: tuple[Box, ...]
    badges: tuple[Box, ...]
    curves: tuple[Curve, ...]
    reading: tuple[int, ...]
    downward: bool = False


class Sizes(NamedTuple):
    """The width and height of each card, and the width of each edge's label, in pixels."""

    cards: tuple[Point, ...]
    labels: tuple[float, ...]

    def with_(self, other: "Sizes") -> "Sizes":
        """Return sizes large enough for both."""
        cards = (
            (max(w, v), max(h, k)) for (w, h), (v, k) in zip(self.cards, other.cards, strict=True)
        )
        return Sizes(tuple(cards), tuple(map(max, self.labels, other.labels)))


def text_width(text: str, size: float = LINE) -> float:
    """Estimate a text's width in pixels, rather too wide than too narrow."""
    return len(text) * size * _WIDTH_OF_LETTER


def layout(trace: Trace, words: Script, sizes: Sizes | None = None) -> Layout:
    """Lay a trace out, from left to right or, if it is deep, from top to bottom.

    ``sizes`` are what cards and labels get; by default what their texts need. Deterministic; some
    ten milliseconds at 60 nodes.
    """
    cards, labels = sizes or needed(words)
    layers = layered(len(trace.nodes), [(edge.source, edge.target) for edge in trace.edges])
    flow = RIGHT if len(layers.ranks) <= _MOST_COLUMNS else DOWN
    placed = _placed(layers, flow, cards, labels)
    curves = curved(layers, placed, labels)
    boxes = _boxes(layers, placed)
    badges = [_badge(box, card.badge, flow) for box, card in zip(boxes, words.cards, strict=True)]
    seen = [*boxes, *(badges[i] for i, card in enumerate(words.cards) if card.badge)]
    width, height = _extent(seen, curves)
    drawn = tuple(boxes), tuple(badges), tuple(curves)
    return Layout(width, height, *drawn, layers.reading, flow.downward)


def needed(words: Script) -> Sizes:
    """Return the sizes that the texts of cards and of the edges' labels need."""
    cards = tuple(card_size(words, card) for card in words.cards)
    return Sizes(cards, tuple(text_width(words.fill(text)) for text in words.factors))


def card_size(words: Script, card: Card) -> Point:
    """Return the width and height that a card's texts and heat maps need."""
    title, *numbers = card.lines
    widths = [text_width(title, TITLE), *(text_width(words.fill(line)) for line in numbers)]
    maps = [(m.columns * cell_size(m.columns), m.rows * cell_size(m.columns)) for m in card.maps]
    widths.append(sum(width for width, _ in maps) + MAP_GAP * (len(maps) - 1))
    widths.append(text_width(card.badge, BADGE_TEXT))
    tallest = max((height + MAP_BELOW for _, height in maps), default=0.0)
    return max(NARROWEST, max(widths) + PADDING), CARD_HEIGHT + tallest


def _placed(
    layers: Layers, flow: Flow, cards: Sequence[Point], labels: Sequence[float]
) -> Placement:
    sizes = [flow.turned(*size) for size in cards]
    room = Room([size for _, size in sizes], flow.beside)
    middle = {place: MARGIN + at for place, at in across(layers, room).items()}
    lengths = [flow.turned(width, LABEL_HEIGHT if width else 0.0)[0] for width in labels]
    return Placement(
        flow, _spans(layers, flow, [size for size, _ in sizes], lengths), middle, sizes
    )


def _spans(
    layers: Layers, flow: Flow, cards: Sequence[float], labels: Sequence[float]
) -> list[Point]:
    """Return begin and end of every rank along the flow; gaps are as long as labels need."""
    longest = [0.0] * len(layers.ranks)
    for route, label in zip(layers.routes, labels, strict=True):
        rank = layers.rank_of[route[-1]]
        longest[rank] = max(longest[rank], label)
    spans: list[Point] = []
    at = MARGIN
    for rank, places in enumerate(layers.ranks):
        at += (flow.gap + longest[rank]) if spans else 0.0
        spans.append((at, at + max(cards[place] for place in places if isinstance(place, int))))
        at = spans[-1][1]
    return spans


def _boxes(layers: Layers, placed: Placement) -> list[Box]:
    boxes: dict[int, Box] = {}
    for (begin, end), rank in zip(placed.spans, layers.ranks, strict=True):
        for node in (place for place in rank if isinstance(place, int)):
            width, height = placed.flow.turned(*placed.sizes[node])
            x, y = placed.flow.turned((begin + end) / 2, placed.middle[node])
            corner = round(x - width / 2, 1), round(y - height / 2, 1)
            boxes[node] = Box(*corner, round(width, 1), round(height, 1))
    return [boxes[node] for node in range(len(boxes))]


def _badge(box: Box, text: str, flow: Flow) -> Box:
    width = text_width(text, BADGE_TEXT) + 8
    x = box.x + flow.badge * box.width - width / 2
    return Box(round(x, 1), round(box.y - BADGE_RISE, 1), round(width, 1), BADGE_HEIGHT)


def _extent(boxes: Iterable[Box], curves: Iterable[Curve]) -> Point:
    corners = [(box.x + box.width, box.y + box.height) for box in boxes]
    corners += [point for curve in curves for point in curve.points]
    right, low = (max(ends) for ends in zip(*corners, strict=True))
    return round(right + MARGIN, 1), round(low + MARGIN, 1)
