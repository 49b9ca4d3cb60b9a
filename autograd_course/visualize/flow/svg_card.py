"""A card of the picture as SVG: its texts, its gradient's bar, its heat maps and its badge."""

from html import escape

from autograd_course.visualize.flow.face import (
    BADGE_BASELINE,
    BASELINES,
    GAUGE_RISE,
    PARTIAL,
    behind,
    gauge_ends,
    map_corners,
    radius,
)
from autograd_course.visualize.flow.heat import cell_size, cells, shade
from autograd_course.visualize.flow.layout import Box, Layout
from autograd_course.visualize.flow.marks import length, look
from autograd_course.visualize.flow.script import Card, Map, Script


def svg_card(node: int, drawn: Layout, words: Script, still: bool) -> str:
    """Return one card; a ``still`` one has its heat maps' cells, and cannot be pressed."""
    card, box = words.cards[node], drawn.boxes[node]
    spoken = f"{card.label}: value {card.value}, gradient {card.gradient}"
    middle = box.x + box.width / 2
    lines = zip(("title", "value", "gradient"), card.lines, BASELINES, strict=True)
    texts = [
        f'<text class="agf-{kind}" x="{middle:g}" y="{box.y + base:g}" '
        f'data-text="{escape(line)}">{escape(words.fill(line))}</text>'
        for kind, line, base in lines
    ]
    parts = [*texts, _gauge(box, card, words), *_maps(box, card, words, still)]
    parts += [_badge(drawn.badges[node], card.badge)] if card.badge else []
    second = _rectangle(behind(box), 8, "agf-behind") if card.kind == "module" else ""
    role = "img" if still else "button"
    return (
        f'<g class="agf-card agf-{card.kind}" data-node="{node}" role="{role}" '
        f'aria-label="{escape(words.fill(spoken))}">{second}'
        f"{_rectangle(box, radius(box, card))}{''.join(parts)}</g>"
    )


def _gauge(box: Box, card: Card, words: Script) -> str:
    """Return the bar along a card's lower rim, which is as long as the gradient is large."""
    (begin, end), mark = gauge_ends(box, card), words.fill(card.mark)
    y = box.y + box.height - GAUGE_RISE
    return (
        f'<path class="agf-track" d="M{begin:g} {y:g}H{end:g}"/>'
        f'<path class="agf-gauge agf-{look(mark)}" data-full="{begin:g} {y:g} {end:g}" '
        f'd="M{begin:g} {y:g}H{begin + length(mark) * (end - begin):g}"/>'
    )


def _maps(box: Box, card: Card, words: Script, still: bool) -> list[str]:
    """Return the heat maps; the widget fills its own, which saves sending every cell."""
    return [
        f'<g class="agf-map agf-{m.when}" data-map="{m.code}" data-columns="{m.columns}" '
        f'data-cell="{cell_size(m.columns):g}" transform="translate({x:g} {y:g})">'
        f"{_cells(words.fill(m.code), m.columns) if still else ''}</g>{_partial(m, x, y)}"
        for m, x, y in map_corners(box, card)
    ]


def _partial(m: Map, x: float, y: float) -> str:
    """Return the sign that tells a gradient's heat map from a value's."""
    if m.when == "value":
        return ""
    return f'<text class="agf-gradient" x="{x - PARTIAL:g}" y="{y + 9:g}">∂</text>'


def _cells(code: str, columns: int) -> str:
    side = cell_size(columns)
    drawn = []
    for x, y, letter in cells(code, columns, 0, 0):
        name, share = shade(letter)
        square = f'd="M{x:g} {y:g}h{side:g}v{side:g}h-{side:g}z"'
        drawn.append(f'<path class="agf-cell agf-{name}" {square} fill-opacity="{share:.2f}"/>')
        if name == "minus":
            dash = f"M{x + side / 4:g} {y + side / 2:g}h{side / 2:g}"
            drawn.append(f'<path class="agf-dash" d="{dash}"/>')
    return "".join(drawn)


def _rectangle(box: Box, radius: float, name: str = "agf-face") -> str:
    return (
        f'<rect class="{name}" x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" '
        f'height="{box.height:g}" rx="{radius:g}"/>'
    )


def _badge(box: Box, text: str) -> str:
    return (
        f'<g class="agf-badge" aria-hidden="true">{_rectangle(box, box.height / 2, "agf-sign")}'
        f'<text x="{box.x + box.width / 2:g}" y="{box.y + BADGE_BASELINE:g}">{text}</text></g>'
    )
