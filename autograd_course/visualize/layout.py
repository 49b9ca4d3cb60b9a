"""Where everything stands: a layered drawing from left to right, shared by picture and widget."""

from collections.abc import Sequence
from dataclasses import dataclass

from autograd_course.visualize.heights import heights
from autograd_course.visualize.layers import Layers, Place, layered
from autograd_course.visualize.routes import CARD_HEIGHT, Box, Curve, Point, curved
from autograd_course.visualize.script import Script
from autograd_course.visualize.trace import Trace

# Pixels. A character of the widest font that may stand in for ours is 0.61 of its size wide.
TITLE, LINE = 13.0, 12.0
NARROWEST, PADDING = 92.0, 20.0
GAP, MARGIN = 40.0, 20.0
_WIDTH_OF_LETTER = 0.61


@dataclass(frozen=True)
class Layout:
    """``boxes[i]`` belongs to node ``i``, ``curves[j]`` to edge ``j``."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    curves: tuple[Curve, ...]


def text_width(text: str, size: float = LINE) -> float:
    """Estimate a text's width in pixels, rather too wide than too narrow."""
    return len(text) * size * _WIDTH_OF_LETTER


def layout(trace: Trace, words: Script) -> Layout:
    """Lay a trace out. Deterministic; some ten milliseconds at 60 nodes."""
    ends = [(edge.source, edge.target) for edge in trace.edges]
    layers = layered(len(trace.nodes), ends)
    widths = [_card_width(words, node) for node in range(len(trace.nodes))]
    spans = _spans(layers, widths, [text_width(words.fill(text)) for text in words.factors])
    middle = {place: MARGIN + y for place, y in heights(layers, CARD_HEIGHT).items()}
    boxes = _boxes(layers, widths, spans, middle)
    curves = curved(layers, spans, middle, boxes)
    return Layout(
        width=spans[-1][1] + MARGIN,
        height=_lowest(boxes, curves) + MARGIN,
        boxes=tuple(boxes),
        curves=tuple(curves),
    )


def _lowest(boxes: Sequence[Box], curves: Sequence[Curve]) -> float:
    ends = [box.y + box.height for box in boxes]
    return max(ends + [y for curve in curves for _, y in curve.points])


def _card_width(words: Script, node: int) -> float:
    card = words.cards[node]
    title, *numbers = card.lines
    widths = [text_width(title, TITLE), *(text_width(words.fill(line)) for line in numbers)]
    return max(NARROWEST, *(width + PADDING for width in widths))


def _spans(layers: Layers, widths: Sequence[float], labels: Sequence[float]) -> list[Point]:
    """Return the left and right end of every column; gaps are as wide as their labels need."""
    column_of = {route[-1]: 0 for route in layers.routes}
    column_of |= {place: c for c, column in enumerate(layers.columns) for place in column}
    widest = [0.0] * len(layers.columns)
    for route, label in zip(layers.routes, labels, strict=True):
        widest[column_of[route[-1]]] = max(widest[column_of[route[-1]]], label)
    spans, x = [], MARGIN
    for c, column in enumerate(layers.columns):
        x += (GAP + widest[c]) if c else 0.0
        width = max([widths[place] for place in column if isinstance(place, int)], default=0.0)
        spans.append((x, x + width))
        x += width
    return spans


def _boxes(
    layers: Layers, widths: Sequence[float], spans: Sequence[Point], middle: dict[Place, float]
) -> list[Box]:
    boxes: dict[int, Box] = {}
    for (start, end), column in zip(spans, layers.columns, strict=True):
        for node in (place for place in column if isinstance(place, int)):
            x = (start + end - widths[node]) / 2
            y = middle[node] - CARD_HEIGHT / 2
            boxes[node] = Box(round(x, 1), round(y, 1), round(widths[node], 1), CARD_HEIGHT)
    return [boxes[node] for node in range(len(boxes))]
