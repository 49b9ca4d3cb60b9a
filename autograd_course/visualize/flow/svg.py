"""The picture as SVG: the widget's stage, and a file of its own."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from autograd_course.visualize.flow.layout import Layout, text_width
from autograd_course.visualize.flow.marks import look, thickness
from autograd_course.visualize.flow.routes import LABEL_HEIGHT, Curve
from autograd_course.visualize.flow.script import Script
from autograd_course.visualize.flow.svg_card import svg_card

HERE = Path(__file__).parent


def stage(words: Script, drawn: Layout) -> str:
    """Return the picture as SVG with classes, for the style sheet ``picture.css``.

    Each element that shows a number keeps its template in ``data-text``; cards carry
    ``data-node`` and edges ``data-edge``.
    """
    return _document(words, drawn, head="")


def svg(words: Script, drawn: Layout, account: str) -> str:
    """Return the picture as an SVG file that needs nothing else; ``account`` is its description."""
    style = (HERE / "picture.css").read_text(encoding="utf-8")
    ground = f'<rect class="agf-ground" width="{drawn.width:g}" height="{drawn.height:g}"/>'
    head = f"<desc>{escape(account)}</desc><style>{style}</style>{ground}"
    return _document(words, drawn, head)


def _document(words: Script, drawn: Layout, head: str) -> str:
    edges = [_edge(number, curve, words) for number, curve in enumerate(drawn.curves)]
    cards = [svg_card(node, drawn, words, filled=bool(head)) for node in drawn.reading]
    factors = [_factor(number, curve, words) for number, curve in enumerate(drawn.curves)]
    size = f'width="{drawn.width:g}" height="{drawn.height:g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="agf-picture" role="group" {size} '
        f'viewBox="0 0 {drawn.width:g} {drawn.height:g}" aria-label="{escape(words.title)}">'
        f"<title>{escape(words.title)}</title>"
        f"{head}{''.join([*edges, *cards, *factors])}</svg>"
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
    (x, y), width = curve.label, text_width(text) + 6
    hidden = "" if text else ' visibility="hidden"'
    return (
        f'<g class="agf-factor" data-edge="{number}" aria-hidden="true"{hidden}>'
        f'<rect x="{x - width / 2:g}" y="{y - LABEL_HEIGHT / 2:g}" width="{width:g}" '
        f'height="{LABEL_HEIGHT:g}" rx="4"/>'
        f'<text x="{x:g}" y="{y + 4:g}" data-text="{escape(template)}">{escape(text)}</text></g>'
    )
