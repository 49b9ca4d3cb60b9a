"""The picture as SVG: the widget's stage, and a file of its own."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from autograd_course.visualize.flow.layout import Box, Layout, text_width
from autograd_course.visualize.flow.routes import LABEL_HEIGHT, Curve
from autograd_course.visualize.flow.script import Script

HERE = Path(__file__).parent
BASELINES = (19.0, 37.0, 54.0)  # of title, value and gradient, from a card's top
BADGE, BADGE_BASELINE = "ƒ custom", 10.5


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
    edges = [_edge(number, curve) for number, curve in enumerate(drawn.curves)]
    cards = [_card(node, drawn, words) for node in drawn.reading]
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


def _edge(number: int, curve: Curve) -> str:
    arrow = "M" + " ".join(f"{x:g} {y:g}" for x, y in curve.arrow) + "z"
    return (
        f'<g class="agf-link" data-edge="{number}" aria-hidden="true">'
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


def _card(node: int, drawn: Layout, words: Script) -> str:
    card, box = words.cards[node], drawn.boxes[node]
    spoken = f"{card.label}: value {card.value}, gradient {card.gradient}"
    radius = box.height / 2 if card.kind == "input" else 8
    middle = box.x + box.width / 2
    lines = zip(("title", "value", "gradient"), card.lines, BASELINES, strict=True)
    badge = _badge(drawn.badges[node]) if card.kind == "custom" else ""
    texts = [
        f'<text class="agf-{kind}" x="{middle:g}" y="{box.y + base:g}" '
        f'data-text="{escape(line)}">{escape(words.fill(line))}</text>'
        for kind, line, base in lines
    ]
    return (
        f'<g class="agf-card agf-{card.kind}" data-node="{node}" role="button" '
        f'aria-label="{escape(words.fill(spoken))}">'
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" '
        f'rx="{radius:g}"/>{"".join(texts)}{badge}</g>'
    )


def _badge(box: Box) -> str:
    return (
        f'<g class="agf-badge" aria-hidden="true"><rect x="{box.x:g}" y="{box.y:g}" '
        f'width="{box.width:g}" height="{box.height:g}" rx="{box.height / 2:g}"/>'
        f'<text x="{box.x + box.width / 2:g}" y="{box.y + BADGE_BASELINE:g}">{BADGE}</text></g>'
    )
