"""What stands where on a card, for the SVG and the PNG alike."""

from itertools import accumulate

from autograd_course.visualize.flow.directions import Point
from autograd_course.visualize.flow.heat import cell_size
from autograd_course.visualize.flow.layout import MAP_GAP, MAP_TOP, Box, text_width
from autograd_course.visualize.flow.routes import LABEL_HEIGHT, Curve
from autograd_course.visualize.flow.script import Card, Map

BASELINES = (19.0, 37.0, 54.0)  # of title, value and gradient, from a card's top
BADGE_BASELINE, ROUNDEST = 12.2, 31.0
PARTIAL = 8.0  # from the sign ∂ to its heat map
GAUGE_RISE = 5.5  # of the gradient's bar, from a card's lower rim
UNLIKE, UNLIKE_SIZE = 8.0, 13.0  # the radius of the sign at what differs, and the size of its ≠
_ASIDE = 8.0  # of a factor's ground, more than its text is wide (stage.js: ASIDE)
_BEHIND = 4.0  # how far the card behind a folded one looks out


def radius(box: Box, card: Card) -> float:
    """Return how round a card's corners are: an input is a pill."""
    return min(box.height / 2, ROUNDEST) if card.kind == "input" else 8


def behind(box: Box) -> Box:
    """Return the card behind a folded one, which shows that there are more."""
    return Box(box.x + _BEHIND, box.y + _BEHIND, box.width, box.height)


def label_box(curve: Curve, text: str) -> Box:
    """Return the box of an edge's local factor."""
    (x, y), width = curve.label, text_width(text) + _ASIDE
    return Box(x - width / 2, y - LABEL_HEIGHT / 2, width, LABEL_HEIGHT)


def unlike_card(box: Box) -> Point:
    """Return where a card bears the sign that it differs: at its upper left corner."""
    return box.x + 4, box.y + 4


def unlike_label(box: Box) -> Point:
    """Return where a factor bears the sign that it differs: above it."""
    return box.x + box.width / 2, box.y - UNLIKE + 1


def gauge_ends(box: Box, card: Card) -> tuple[float, float]:
    """Return where a full bar begins and ends; it keeps clear of the round corners."""
    clear = 0.62 * radius(box, card) if card.kind == "input" else 8
    return box.x + clear, box.x + box.width - clear


def map_corners(box: Box, card: Card) -> list[tuple[Map, float, float]]:
    """Return a card's heat maps, each with its upper left corner."""
    widths = [m.columns * cell_size(m.columns) for m in card.maps]
    x = box.x + (box.width - sum(widths) - MAP_GAP * (len(widths) - 1)) / 2
    starts = accumulate([x, *(width + MAP_GAP for width in widths)])
    return [(m, start, box.y + MAP_TOP) for m, start in zip(card.maps, starts, strict=False)]
