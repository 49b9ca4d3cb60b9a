"""The picture as PNG, drawn without any state of pyplot."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from autograd_course.visualize.flow.canvas import EDGE, FONT, INK, KEY, PAPER, SOFT, Canvas
from autograd_course.visualize.flow.columns import (
    BETWEEN,
    FOOT,
    RULE_TOP,
    TURN,
    TURN_ASIDE,
    TURN_RISE,
    TURN_SIZE,
    WIDEST,
    Column,
    Sheet,
)
from autograd_course.visualize.flow.differences import Different
from autograd_course.visualize.flow.layout import TITLE, Layout
from autograd_course.visualize.flow.script import Script
from autograd_course.visualize.kit.figure import small_png

_PIXELS = 72  # a pixel of the layout is a point
_ALIKE = Different()
_SHARP, _PLAIN, _LARGE = 144, 100, 8e5  # dots per inch; pictures of more pixels are plain
HEADING, _INDENT = 24.0, 20.0  # of a picture's name
KEY_WIDTH = 420.0  # from which on there is room for the key
_SMALL, _PAGE, _READ = 7.5, 890.0, 8.0  # pixels: the key's text, a saved page, and text on it


class Page:
    """A figure of a size in pixels, on which pictures are painted; y goes down."""

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
        """Draw a picture, its upper left corner at a place, with a sign at what is different."""
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
        """Lead from the foot of one column to the head of the next."""
        ends = [1 - (top + RULE_TOP) / self.height, 1 - (top + height - FOOT) / self.height]
        rule = Line2D([x / self.width] * 2, ends, color=EDGE, linewidth=0.6)
        self.figure.add_artist(rule)
        at = x - BETWEEN / 2 - TURN_ASIDE
        self.text(at, top + height - TURN_RISE, TURN, SOFT, TURN_SIZE, ha="right")

    def text(self, x: float, y: float, text: str, color: str, size: float, **look: Any) -> None:
        """Write a line, its baseline at a height."""
        self.figure.text(x / self.width, 1 - y / self.height, text, color=color, fontsize=size,
                         fontfamily=FONT, va="baseline", parse_math=False, **look)  # fmt: skip


def png(words: Script, drawn: Layout) -> bytes:
    """Draw the picture, sharp unless it is large, with a palette to keep the file small."""
    sheet = Sheet(drawn)
    page = Page(sheet.width, sheet.height)
    page.paint(sheet, words)
    return small_png(page.figure)


def png_of_several(
    named: Sequence[tuple[str, Script, Layout]], different: Sequence[Different]
) -> bytes:
    """Draw pictures under their names: tall ones side by side, if a page has room for them.

    ``different`` is what differs in each of them.
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
    """Draw what a column shows of the picture."""
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
