"""Draw the picture as SVG for the widget's animation, for a standalone file, and for the PNG."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from autograd_course.visualize.flow.describe import Card, Map, Script
from autograd_course.visualize.flow.differences import Different
from autograd_course.visualize.flow.layout import (
    BADGE_BASELINE,
    BASELINES,
    BETWEEN,
    FOOT,
    GAUGE_RISE,
    PARTIAL,
    RULE_TOP,
    TURN,
    TURN_ASIDE,
    TURN_RISE,
    UNLIKE,
    Box,
    Column,
    Curve,
    Layout,
    Sheet,
    behind,
    gauge_ends,
    label_box,
    map_corners,
    radius,
    unlike_card,
    unlike_label,
)
from autograd_course.visualize.flow.marks import cell_size, cells, length, look, shade, thickness

# --- A card ---------------------------------------------------------------------------------------


def svg_card(node: int, drawn: Layout, words: Script, still: bool) -> str:
    """Return one card. A ``still`` card contains its heat-map cells and is not clickable."""
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
    """Return the bar along the bottom of a card. Its length shows the gradient's size."""
    (begin, end), mark = gauge_ends(box, card), words.fill(card.mark)
    y = box.y + box.height - GAUGE_RISE
    return (
        f'<path class="agf-track" d="M{begin:g} {y:g}H{end:g}"/>'
        f'<path class="agf-gauge agf-{look(mark)}" data-full="{begin:g} {y:g} {end:g}" '
        f'd="M{begin:g} {y:g}H{begin + length(mark) * (end - begin):g}"/>'
    )


def _maps(box: Box, card: Card, words: Script, still: bool) -> list[str]:
    """Return the heat maps. In the widget, they are empty, and the page fills them in."""
    return [
        f'<g class="agf-map agf-{m.when}" data-map="{m.code}" data-columns="{m.columns}" '
        f'data-cell="{cell_size(m.columns):g}" transform="translate({x:g} {y:g})">'
        f"{_cells(words.fill(m.code), m.columns) if still else ''}</g>{_partial(m, x, y)}"
        for m, x, y in map_corners(box, card)
    ]


def _partial(m: Map, x: float, y: float) -> str:
    """Return the symbol ∂, which marks the heat map of a gradient."""
    if m.when == "value":
        return ""
    return f'<text class="agf-gradient" x="{x - PARTIAL:g}" y="{y + 9:g}">∂</text>'


def _cells(code: str, columns: int) -> str:
    """Draw a heat map: its outline, a path for each level, and dashes in negative cells."""
    side, levels, dashes = cell_size(columns), dict[tuple[str, float], str](), ""
    for x, y, letter in cells(code, columns, 0, 0):
        level = shade(letter)
        levels[level] = levels.get(level, "") + f"M{x:g} {y:g}h{side:g}v{side:g}h-{side:g}z"
        if level[0] == "minus":
            dashes += f"M{x + side / 4:g} {y + side / 2:g}h{side / 2:g}"
    drawn = [
        f'<path class="agf-cell agf-{name}" d="{d}" fill-opacity="{share:.2f}"/>'
        for (name, share), d in levels.items()
    ]
    width, height = columns * side, len(code) // columns * side
    rim = f"M0 0h{width:g}v{height:g}h-{width:g}z"
    dash = f'<path class="agf-dash" d="{dashes}"/>' if dashes else ""
    return "".join([*drawn, dash, f'<path class="agf-rim" d="{rim}"/>'])


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


# --- The picture ----------------------------------------------------------------------------------

STYLE = Path(__file__).with_name("picture.css")
ALIKE = Different()


def live_svg(words: Script, drawn: Layout) -> str:
    """Return the picture as SVG with CSS classes, which ``picture.css`` styles.

    Each element that shows a number stores its template in ``data-text``. Cards have ``data-node``,
    and edges have ``data-edge``.
    """
    whole = Column(0.0, 0.0, drawn.width, drawn.height)
    shown = _column(words, drawn, whole, still=False)
    return document(words.title, whole.width, whole.height, shown)


def svg(words: Script, drawn: Layout, account: str) -> str:
    """Return the picture as a self-contained SVG file. ``account`` describes it.

    A tall picture is drawn in columns, like the PNG.
    """
    sheet, style = Sheet(drawn), STYLE.read_text(encoding="utf-8")
    content = f"<desc>{escape(account)}</desc>{ground(sheet.width, sheet.height, style)}"
    return document(words.title, sheet.width, sheet.height, content + svg_sheet(sheet, words))


def ground(width: float, height: float, style: str) -> str:
    """Return the style sheet and the background of a still picture."""
    return f'<style>{style}</style><rect class="agf-ground" width="{width:g}" height="{height:g}"/>'


def svg_sheet(sheet: Sheet, words: Script, different: Different = ALIKE) -> str:
    """Return the columns of a still picture, and mark the differences from another flow."""
    columns = [_column(words, sheet.drawn, column, True, different) for column in sheet.columns]
    if sheet.turns:
        placed = zip(sheet.placed, columns, strict=True)
        columns = [_window(left, column, shown) for (left, column), shown in placed]
    return "".join([*columns, *(_turn(x, sheet.height) for x in sheet.turns)])


def document(title: str, width: float, height: float, content: str) -> str:
    """Return an SVG of this size. ``title`` is its accessible name."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="agf-picture" role="group" '
        f'width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{content}</svg>"
    )


def _column(
    words: Script, drawn: Layout, column: Column, still: bool, different: Different = ALIKE
) -> str:
    """Return the contents of a column. A ``still`` column has no clickable elements."""
    curves = list(enumerate(drawn.curves))
    edges = [_edge(number, curve, words) for number, curve in curves if column.meets(curve)]
    here = [node for node in drawn.reading if column.holds(drawn.boxes[node])]
    cards = [svg_card(node, drawn, words, still) for node in here]
    signs = [_unlike(*unlike_card(drawn.boxes[node])) for node in here if node in different.nodes]
    factors = [
        _factor(number, curve, words, number in different.edges)
        for number, curve in curves
        if column.labels(curve)
    ]
    return "".join([*edges, *cards, *signs, *factors])


def _window(left: float, column: Column, shown: str) -> str:
    """Return one part of the drawing, moved to the position of its column."""
    size = f'width="{column.width:g}" height="{column.height:g}"'
    part = f"{column.left:g} {column.top:g} {column.width:g} {column.height:g}"
    return f'<svg x="{left:g}" {size} viewBox="{part}">{shown}</svg>'


def _turn(x: float, height: float) -> str:
    """Draw a line from the bottom of one column to the top of the next."""
    at = x - BETWEEN / 2 - TURN_ASIDE
    return (
        f'<path class="agf-rim" d="M{x:g} {RULE_TOP:g}V{height - FOOT:g}"/>'
        f'<text class="agf-turn" x="{at:g}" y="{height - TURN_RISE:g}">{TURN}</text>'
    )


def path(points: Sequence[tuple[float, float]]) -> str:
    """Return the ``d`` attribute for a chain of cubic Bézier curves."""
    (x, y), *rest = points
    return f"M{x:g} {y:g}C" + " ".join(f"{u:g} {v:g}" for u, v in rest)


def _edge(number: int, curve: Curve, words: Script) -> str:
    mark = words.fill(words.marks[number])
    arrow = "M" + " ".join(f"{x:g} {y:g}" for x, y in curve.arrow) + "z"
    return (
        f'<g class="agf-link agf-{look(mark)}" data-edge="{number}" aria-hidden="true" '
        f'style="stroke-width:{thickness(mark)}">'
        f'<path class="agf-edge" d="{path(curve.points)}"/>'
        f'<path class="agf-arrow" d="{arrow}"/></g>'
    )


def _factor(number: int, curve: Curve, words: Script, differs: bool) -> str:
    template = words.factors[number]
    text = words.fill(template)
    (x, y), box = curve.label, label_box(curve, text)
    hidden = "" if text else ' visibility="hidden"'
    return (
        f'<g class="agf-factor{" agf-differs" * differs}" data-edge="{number}" '
        f'aria-hidden="true"{hidden}>'
        f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="4"/>'
        f'<text x="{x:g}" y="{y + 4:g}" data-text="{escape(template)}">{escape(text)}</text>'
        f"{_unlike(*unlike_label(box)) if differs else ''}</g>"
    )


def _unlike(x: float, y: float) -> str:
    """Return the symbol ≠, which marks a part that differs from its counterpart in another flow."""
    return (
        f'<g class="agf-unlike"><circle cx="{x:g}" cy="{y:g}" r="{UNLIKE:g}"/>'
        f'<text x="{x:g}" y="{y + 4.5:g}">≠</text></g>'
    )
