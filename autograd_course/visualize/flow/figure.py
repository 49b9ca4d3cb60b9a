"""Draw the picture as PNG, without changing the state of pyplot."""

from collections.abc import Sequence
from typing import Any

from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyBboxPatch, PathPatch, Polygon
from matplotlib.path import Path

from autograd_course.visualize.flow.describe import Card, Script
from autograd_course.visualize.flow.differences import Different
from autograd_course.visualize.flow.layout import (
    BADGE_BASELINE,
    BADGE_TEXT,
    BASELINES,
    BETWEEN,
    FOOT,
    GAUGE_RISE,
    LINE,
    PARTIAL,
    RULE_TOP,
    TITLE,
    TURN,
    TURN_ASIDE,
    TURN_RISE,
    TURN_SIZE,
    UNLIKE,
    UNLIKE_SIZE,
    WIDEST,
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
from autograd_course.visualize.kit.figure import small_png

# --- The parts as matplotlib artists --------------------------------------------------------------

INK, PAPER, CARD, EDGE, SOFT = "#22262b", "#ffffff", "#f5f6f8", "#878f9a", "#5b636e"
VALUE, GRADIENT, CUSTOM, CUSTOM_CARD = "#00609a", "#ad4300", "#7a3b8f", "#f8effb"
# The sign of a gradient. Positive and mixed gradients are vermilion. Negative gradients are blue
# and dashed.
SIGNS = {"plus": "#d55e00", "minus": "#0072b2", "mixed": "#d55e00", "zero": EDGE}
SIGNS["broken"] = "#b3261e"
DASHED, TRACK = (0, (1.6, 1.1)), "#c8cdd4"
FONT = ["DejaVu Sans"]  # part of matplotlib, so the picture is the same everywhere
KEY = "lines and bars: norm of ∂ (log scale); dashed blue: negative ∂"
Part = tuple[float, float, float, float]


class Canvas:
    """The area of a figure that shows one column: left, bottom, width, height, from 0 to 1."""

    def __init__(self, figure: Figure, part: Part, column: Column) -> None:
        self.axes = figure.add_axes(part)
        self.axes.set(xlim=(column.left, column.right), ylim=(column.bottom, column.top))
        self.axes.axis("off")
        self.grid = Grid()

    def cells(self) -> None:
        """Draw the cells of all heat maps that have been collected."""
        for artist in self.grid.artists():
            self.axes.add_artist(artist)

    def edge(self, curve: Curve, mark: str) -> None:
        """Draw an edge in the style of its gradient."""
        codes = [Path.MOVETO] + [Path.CURVE4] * (len(curve.points) - 1)
        line, color = Path(list(curve.points), codes), SIGNS[look(mark)]
        style = {"edgecolor": color, "linewidth": thickness(mark), "capstyle": "butt"}
        dash = DASHED if look(mark) == "minus" else "-"
        self.axes.add_artist(PathPatch(line, fill=False, linestyle=dash, **style))
        self.axes.add_artist(Polygon(list(curve.arrow), facecolor=color, edgecolor="none"))

    def card(self, box: Box, card: Card, words: Script) -> None:
        """Draw a card and the text on it."""
        custom, rim = card.kind == "custom", card.kind == "output"
        if card.kind == "module":
            self._rectangle(behind(box), 8, facecolor=CARD, edgecolor=EDGE, linewidth=1.2)
        self._rectangle(
            box,
            radius(box, card),
            facecolor=CUSTOM_CARD if custom else CARD,
            edgecolor=CUSTOM if custom else INK if rim else EDGE,
            linewidth=2.4 if custom else 2.0 if rim else 1.2,
        )
        x = box.x + box.width / 2
        (title, value, gradient), (top, middle, low) = card.lines, (box.y + b for b in BASELINES)
        self._text(x, top, title, INK, TITLE, "bold")
        self._text(x, middle, words.fill(value), VALUE)
        self._text(x, low, words.fill(gradient), GRADIENT, weight="bold")
        self._gauge(box, card, words.fill(card.mark))
        for m, x, y in map_corners(box, card):
            self.grid.add(words.fill(m.code), m.columns, x, y)
            if m.when == "gradient":
                self._text(x - PARTIAL, y + 9, "∂", GRADIENT, weight="bold")

    def _gauge(self, box: Box, card: Card, mark: str) -> None:
        (begin, end), y = gauge_ends(box, card), box.y + box.height - GAUGE_RISE
        dash = DASHED if look(mark) == "minus" else "-"
        color, reach = SIGNS[look(mark)], begin + length(mark) * (end - begin)
        self.axes.plot([begin, end], [y, y], color=TRACK, linewidth=1)
        self.axes.plot(
            [begin, reach],
            [y, y],
            color=color,
            linewidth=3.4,
            linestyle=dash,
            solid_capstyle="butt",
            dash_capstyle="butt",
        )

    def badge(self, box: Box, card: Card) -> None:
        """Draw a badge."""
        color = CUSTOM if card.kind in ("custom", "module") else SOFT
        self._rectangle(box, box.height / 2, facecolor=color, edgecolor="none")
        x, y = box.x + box.width / 2, box.y + BADGE_BASELINE
        self._text(x, y, card.badge, PAPER, BADGE_TEXT, "bold")

    def factor(self, curve: Curve, text: str) -> None:
        """Write the local factor next to an edge."""
        x, y = curve.label
        ground = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5}
        self._text(x, y + 4, text, GRADIENT, weight="bold", bbox=ground)

    def unlike_card(self, box: Box) -> None:
        """Mark a card that differs from its counterpart in another flow."""
        self._unlike(*unlike_card(box))

    def unlike_factor(self, curve: Curve, text: str) -> None:
        """Mark a local factor that differs from its counterpart."""
        box = label_box(curve, text)
        self._rectangle(box, 4, fill=False, edgecolor=INK, linewidth=1.4, zorder=6)
        self._unlike(*unlike_label(box))

    def _unlike(self, x: float, y: float) -> None:
        self.axes.add_artist(Circle((x, y), UNLIKE, facecolor=INK, edgecolor=PAPER, zorder=7))
        self._text(x, y + 4.5, "≠", PAPER, UNLIKE_SIZE, "bold", zorder=8)

    def _rectangle(self, box: Box, radius: float, **look: object) -> None:
        style = f"round,pad=0,rounding_size={radius}"
        corner = (box.x, box.y)
        self.axes.add_artist(
            FancyBboxPatch(corner, box.width, box.height, boxstyle=style, **look)  # type: ignore[arg-type]
        )

    def _text(
        self,
        x: float,
        baseline: float,
        text: str,
        color: str,
        size: float = LINE,
        weight: str = "normal",
        **look: object,
    ) -> None:
        self.axes.text(
            x,
            baseline,
            text,
            color=color,
            fontsize=0.92 * size,
            fontweight=weight,
            fontfamily=FONT,
            ha="center",
            va="baseline",
            parse_math=False,
            **look,  # type: ignore[arg-type]
        )


# --- The cells of all heat maps -------------------------------------------------------------------

_GROUND, _DASH = "#ffffff", "#22262b"
_COLORS = {"plus": "#d55e00", "minus": "#0072b2", "zero": "#ffffff", "broken": "#b3261e"}
_RIM = "#b9bfc7"


class Grid:
    """Collect heat-map cells and return artists: squares, dashes for negative cells, and rims."""

    def __init__(self) -> None:
        self._squares: list[list[tuple[float, float]]] = []
        self._colors: list[str] = []
        self._dashes: list[list[tuple[float, float]]] = []
        self._rims: list[list[tuple[float, float]]] = []

    def add(self, code: str, columns: int, x: float, y: float) -> None:
        """Add one heat map with its upper left corner at (x, y)."""
        side = cell_size(columns)
        for left, top, letter in cells(code, columns, x, y):
            name, share = shade(letter)
            self._squares.append(_square(left, top, side, side))
            self._colors.append(_mixed(_COLORS[name], share))
            if name == "minus":
                middle = top + side / 2
                self._dashes.append([(left + side / 4, middle), (left + 3 * side / 4, middle)])
        self._rims.append(_square(x, y, columns * side, len(code) // columns * side))

    def artists(self) -> list[PolyCollection | LineCollection]:
        """Return the artists in drawing order."""
        if not self._squares:
            return []
        return [
            PolyCollection(self._squares, facecolors=self._colors, edgecolors="none", zorder=3),
            LineCollection(self._dashes, colors=_DASH, linewidths=0.7, zorder=4),
            PolyCollection(
                self._rims, facecolors="none", edgecolors=_RIM, linewidths=0.6, zorder=4
            ),
        ]


def _square(x: float, y: float, width: float, height: float) -> list[tuple[float, float]]:
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def _mixed(color: str, share: float) -> str:
    """Mix a color with the background. The result looks like a transparent color in the widget."""
    pairs = ((int(c[i : i + 2], 16) for c in (color, _GROUND)) for i in (1, 3, 5))
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


# --- The picture ----------------------------------------------------------------------------------

_PIXELS = 72  # one pixel of the layout is one point
_ALIKE = Different()
# dots per inch; pictures with more pixels than the limit use the plain resolution
_SHARP, _PLAIN, _LARGE = 144, 100, 8e5
HEADING, _INDENT = 24.0, 20.0  # the height and the indentation of a picture's name
KEY_WIDTH = 420.0  # the minimum width that leaves room for the key
_SMALL, _PAGE, _READ = 7.5, 890.0, 8.0  # pixels: the text of the key, a saved page, and text on it


class Page:
    """A figure on which pictures are drawn. Its size is in pixels, and y increases downward."""

    def __init__(self, width: float, height: float) -> None:
        dpi = _SHARP if width * height <= _LARGE else _PLAIN
        self.width, self.height = width, height
        self.figure = Figure(figsize=(width / _PIXELS, height / _PIXELS), dpi=dpi)
        self.figure.set_facecolor(PAPER)

    def paint(
        self,
        sheet: Sheet,
        words: Script,
        left: float = 0.0,
        top: float = 0.0,
        different: Different = _ALIKE,
    ) -> None:
        """Draw a picture with its upper left corner at a position, and mark the differences."""
        for x, column in sheet.placed:
            lower = self.height - top - column.height
            corner = ((left + x) / self.width, lower / self.height)
            extent = (column.width / self.width, column.height / self.height)
            canvas = Canvas(self.figure, (*corner, *extent), column)
            _column(canvas, words, sheet.drawn, column, different)
        for x in sheet.turns:
            self._turn(left + x, top, sheet.height)
        if sheet.width >= KEY_WIDTH:
            size = max(TURN_SIZE if sheet.turns else _SMALL, _READ * sheet.width / _PAGE)
            key = f"≠ differs between the flows; {KEY}" if any(different) else KEY
            self.text(left + sheet.width - 8, top + sheet.height - 6, key, SOFT, size, ha="right")

    def _turn(self, x: float, top: float, height: float) -> None:
        """Draw a line from the bottom of one column to the top of the next."""
        ends = [1 - (top + RULE_TOP) / self.height, 1 - (top + height - FOOT) / self.height]
        rule = Line2D([x / self.width] * 2, ends, color=EDGE, linewidth=0.6)
        self.figure.add_artist(rule)
        at = x - BETWEEN / 2 - TURN_ASIDE
        self.text(at, top + height - TURN_RISE, TURN, SOFT, TURN_SIZE, ha="right")

    def text(self, x: float, y: float, text: str, color: str, size: float, **look: Any) -> None:
        """Write a line of text. Its baseline is at a given height."""
        self.figure.text(x / self.width, 1 - y / self.height, text, color=color, fontsize=size,
                         fontfamily=FONT, va="baseline", parse_math=False, **look)  # fmt: skip


def png(words: Script, drawn: Layout) -> bytes:
    """Draw the picture in high resolution unless it is large. A palette keeps the file small."""
    sheet = Sheet(drawn)
    page = Page(sheet.width, sheet.height)
    page.paint(sheet, words)
    return small_png(page.figure)


def png_of_several(
    named: Sequence[tuple[str, Script, Layout]], different: Sequence[Different]
) -> bytes:
    """Draw several pictures, each below its name. Tall pictures are side by side if they fit.

    ``different`` contains the differences in each picture.
    """
    sheets = [Sheet(drawn) for _, _, drawn in named]
    sizes = [(sheet.width, sheet.height + HEADING) for sheet in sheets]
    widths, heights = zip(*sizes, strict=True)
    wide = max(widths) > max(heights) - HEADING or sum(widths) > WIDEST
    page = Page(max(widths) if wide else sum(widths), sum(heights) if wide else max(heights))
    left = top = 0.0
    for (name, words, _), sheet, (w, h), own in zip(named, sheets, sizes, different, strict=True):
        page.paint(sheet, words, left, top + HEADING, own)
        page.text(left + _INDENT, top + HEADING, name, INK, TITLE, fontweight="bold")
        left, top = (left, top + h) if wide else (left + w, top)
    return small_png(page.figure)


def _column(
    canvas: Canvas, words: Script, drawn: Layout, column: Column, different: Different
) -> None:
    """Draw one column of the picture."""
    for curve, mark in zip(drawn.curves, words.marks, strict=True):
        if column.meets(curve):
            canvas.edge(curve, words.fill(mark))
    for box, badge, card in zip(drawn.boxes, drawn.badges, words.cards, strict=True):
        if column.holds(box):
            canvas.card(box, card, words)
            if card.badge:
                canvas.badge(badge, card)
    for curve, factor in zip(drawn.curves, words.factors, strict=True):
        if column.labels(curve) and (text := words.fill(factor)):
            canvas.factor(curve, text)
    for node in different.nodes:
        if column.holds(drawn.boxes[node]):
            canvas.unlike_card(drawn.boxes[node])
    for edge in different.edges:
        if column.labels(drawn.curves[edge]):
            canvas.unlike_factor(drawn.curves[edge], words.fill(words.factors[edge]))
    canvas.cells()
