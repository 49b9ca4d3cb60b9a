"""The picture as PNG, drawn without any state of pyplot."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from autograd_course.visualize.flow.canvas import FONT, INK, PAPER, Canvas, Part
from autograd_course.visualize.flow.layout import TITLE, Layout
from autograd_course.visualize.flow.script import Script
from autograd_course.visualize.kit.raster import small_png

_PIXELS = 72  # a pixel of the layout is a point
_SHARP, _PLAIN, _LARGE = 144, 100, 8e5  # dots per inch; pictures of more pixels are plain
HEADING, _INDENT = 24.0, 20.0  # of a picture's name
KEY_WIDTH = 420.0  # from which on there is room for the key


def png(words: Script, drawn: Layout) -> bytes:
    """Draw the picture, sharp unless it is large, with a palette to keep the file small."""
    dpi = _SHARP if drawn.width * drawn.height <= _LARGE else _PLAIN
    figure = Figure(figsize=(drawn.width / _PIXELS, drawn.height / _PIXELS), dpi=dpi)
    figure.set_facecolor(PAPER)
    paint(figure, (0, 0, 1, 1), words, drawn)
    return small_png(figure)


def png_of_several(named: Sequence[tuple[str, Script, Layout]]) -> bytes:
    """Draw pictures under their names: wide ones below each other, tall ones side by side."""
    wide = max(d.width for _, _, d in named) > max(d.height for _, _, d in named)
    sizes = [(drawn.width, drawn.height + HEADING) for _, _, drawn in named]
    widths, heights = zip(*sizes, strict=True)
    width = max(widths) if wide else sum(widths)
    height = sum(heights) if wide else max(heights)
    dpi = _SHARP if width * height <= _LARGE else _PLAIN
    figure = Figure(figsize=(width / _PIXELS, height / _PIXELS), dpi=dpi)
    figure.set_facecolor(PAPER)
    left = top = 0.0
    for (name, words, drawn), (w, h) in zip(named, sizes, strict=True):
        below = height - top - h
        part = (left / width, below / height, drawn.width / width, drawn.height / height)
        paint(figure, part, words, drawn)
        x, y = (left + _INDENT) / width, 1 - (top + HEADING) / height
        figure.text(x, y, name, color=INK, fontsize=TITLE, fontweight="bold",
                    fontfamily=FONT, va="baseline", parse_math=False)  # fmt: skip
        left, top = (left, top + h) if wide else (left + w, top)
    return small_png(figure)


def paint(figure: Figure, part: Part, words: Script, drawn: Layout) -> None:
    """Draw the picture into a part of a figure: left, bottom, width and height, from 0 to 1."""
    canvas = Canvas(figure, part, drawn)
    for curve, mark in zip(drawn.curves, words.marks, strict=True):
        canvas.edge(curve, words.fill(mark))
    for box, badge, card in zip(drawn.boxes, drawn.badges, words.cards, strict=True):
        canvas.card(box, card, words)
        if card.badge:
            canvas.badge(badge, card)
    for curve, factor in zip(drawn.curves, words.factors, strict=True):
        if text := words.fill(factor):
            canvas.factor(curve, text)
    canvas.cells()
    if drawn.width >= KEY_WIDTH:
        canvas.key(drawn)
