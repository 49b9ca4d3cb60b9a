"""The picture as SVG: the widget's stage, and a file of its own."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from autograd_course.visualize.flow.columns import (
    BETWEEN,
    FOOT,
    RULE_TOP,
    TURN,
    TURN_ASIDE,
    TURN_RISE,
    Column,
    Sheet,
)
from autograd_course.visualize.flow.face import label_box
from autograd_course.visualize.flow.layout import Layout
from autograd_course.visualize.flow.marks import look, thickness
from autograd_course.visualize.flow.routes import Curve
from autograd_course.visualize.flow.script import Script
from autograd_course.visualize.flow.svg_card import svg_card

HERE = Path(__file__).parent


def stage(words: Script, drawn: Layout) -> str:
    """Return the picture as SVG with classes, for the style sheet ``picture.css``.

    Each element that shows a number keeps its template in ``data-text``; cards carry
    ``data-node`` and edges ``data-edge``.
    """
    whole = Column(0.0, 0.0, drawn.width, drawn.height)
    return _document(words, whole.width, whole.height, _column(words, drawn, whole, still=False))


def svg(words: Script, drawn: Layout, account: str) -> str:
    """Return the picture as an SVG file that needs nothing else; ``account`` is its description.

    A tall one stands in columns, as the PNG does.
    """
    sheet, style = Sheet(drawn), (HERE / "picture.css").read_text(encoding="utf-8")
    ground = f'<rect class="agf-ground" width="{sheet.width:g}" height="{sheet.height:g}"/>'
    head = f"<desc>{escape(account)}</desc><style>{style}</style>{ground}"
    columns = [_column(words, drawn, column, still=True) for column in sheet.columns]
    if sheet.turns:
        placed = zip(sheet.placed, columns, strict=True)
        columns = [_window(left, column, shown) for (left, column), shown in placed]
    turns = [_turn(x, sheet.height) for x in sheet.turns]
    return _document(words, sheet.width, sheet.height, "".join([head, *columns, *turns]))


def _document(words: Script, width: float, height: float, content: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="agf-picture" role="group" '
        f'width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" aria-label="{escape(words.title)}">'
        f"<title>{escape(words.title)}</title>{content}</svg>"
    )


def _column(words: Script, drawn: Layout, column: Column, still: bool) -> str:
    """Return what a column shows; ``still`` is the picture in a file, where nothing is pressed."""
    curves = list(enumerate(drawn.curves))
    edges = [_edge(number, curve, words) for number, curve in curves if column.meets(curve)]
    here = [node for node in drawn.reading if column.holds(drawn.boxes[node])]
    cards = [svg_card(node, drawn, words, still) for node in here]
    factors = [_factor(number, curve, words) for number, curve in curves if column.labels(curve)]
    return "".join([*edges, *cards, *factors])


def _window(left: float, column: Column, shown: str) -> str:
    """Return a part of the drawing at the place of its column."""
    size = f'width="{column.width:g}" height="{column.height:g}"'
    part = f"{column.left:g} {column.top:g} {column.width:g} {column.height:g}"
    return f'<svg x="{left:g}" {size} viewBox="{part}">{shown}</svg>'


def _turn(x: float, height: float) -> str:
    """Lead from the foot of one column to the head of the next."""
    at = x - BETWEEN / 2 - TURN_ASIDE
    return (
        f'<path class="agf-rim" d="M{x:g} {RULE_TOP:g}V{height - FOOT:g}"/>'
        f'<text class="agf-turn" x="{at:g}" y="{height - TURN_RISE:g}">{TURN}</text>'
    )


def path(points: Sequence[tuple[float, float]]) -> str:
    """Return the ``d`` attribute of a run of cubic Bézier pieces."""
    (x, y), *rest = points
    return f"M{x:g} {y:g}C" + " ".join(f"{u:g} {v:g}" for u, v in rest)


def _edge(number: int, curve: Curve, words: Script) -> str:
    mark = words.fill(words.marks[number])
    arrow = "M" + " ".join(f"{x:g} {y:g}" for x, y in curve.arrow) + "z"
    return (
        f'<g class="agf-link agf-{look(mark)}" data-edge="{number}" aria-hidden="true" '
        f'style="--agf-width:{thickness(mark)}">'
        f'<path class="agf-edge" d="{path(curve.points)}"/>'
        f'<path class="agf-arrow" d="{arrow}"/></g>'
    )


def _factor(number: int, curve: Curve, words: Script) -> str:
    template = words.factors[number]
    text = words.fill(template)
    (x, y), box = curve.label, label_box(curve, text)
    hidden = "" if text else ' visibility="hidden"'
    return (
        f'<g class="agf-factor" data-edge="{number}" aria-hidden="true"{hidden}>'
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="4"/>'
        f'<text x="{x:g}" y="{y + 4:g}" data-text="{escape(template)}">{escape(text)}</text></g>'
    )
