"""The picture as PNG, drawn without any state of pyplot."""

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
from matplotlib.path import Path

from autograd_course.visualize.flow.layout import LINE, TITLE, Box, Layout
from autograd_course.visualize.flow.routes import Curve
from autograd_course.visualize.flow.script import Card, Script
from autograd_course.visualize.flow.svg import BADGE, BADGE_BASELINE, BASELINES
from autograd_course.visualize.kit.raster import small_png

INK, PAPER, CARD, EDGE = "#22262b", "#ffffff", "#f5f6f8", "#878f9a"
VALUE, GRADIENT, CUSTOM, CUSTOM_CARD = "#00609a", "#ad4300", "#7a3b8f", "#f8effb"
_PIXELS = 72  # a pixel of the layout is a point
_SHARP, _PLAIN, _LARGE = 144, 100, 8e5  # dots per inch; pictures of more pixels are plain
_FONT = ["DejaVu Sans"]  # comes with matplotlib: the same picture everywhere


def png(words: Script, drawn: Layout) -> bytes:
    """Draw the picture, sharp unless it is large, with a palette to keep the file small."""
    dpi = _SHARP if drawn.width * drawn.height <= _LARGE else _PLAIN
    figure = Figure(figsize=(drawn.width / _PIXELS, drawn.height / _PIXELS), dpi=dpi)
    canvas = _Canvas(figure, drawn)
    for curve in drawn.curves:
        canvas.edge(curve)
    for box, badge, card in zip(drawn.boxes, drawn.badges, words.cards, strict=True):
        canvas.card(box, card, words)
        if card.kind == "custom":
            canvas.badge(badge)
    for curve, factor in zip(drawn.curves, words.factors, strict=True):
        if text := words.fill(factor):
            canvas.factor(curve, text)
    return small_png(figure)


class _Canvas:
    def __init__(self, figure: Figure, drawn: Layout) -> None:
        figure.set_facecolor(PAPER)
        self.axes = figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, drawn.width), ylim=(drawn.height, 0))
        self.axes.axis("off")

    def edge(self, curve: Curve) -> None:
        codes = [Path.MOVETO] + [Path.CURVE4] * (len(curve.points) - 1)
        line = Path(list(curve.points), codes)
        self.axes.add_artist(PathPatch(line, fill=False, edgecolor=EDGE, linewidth=1.6))
        self.axes.add_artist(Polygon(list(curve.arrow), facecolor=EDGE, edgecolor="none"))

    def card(self, box: Box, card: Card, words: Script) -> None:
        custom, rim = card.kind == "custom", card.kind == "output"
        self._rectangle(
            box,
            radius=box.height / 2 if card.kind == "input" else 8,
            facecolor=CUSTOM_CARD if custom else CARD,
            edgecolor=CUSTOM if custom else INK if rim else EDGE,
            linewidth=2.4 if custom else 2.0 if rim else 1.2,
        )
        x = box.x + box.width / 2
        (title, value, gradient), (top, middle, low) = card.lines, (box.y + b for b in BASELINES)
        self._text(x, top, title, INK, TITLE, "bold")
        self._text(x, middle, words.fill(value), VALUE)
        self._text(x, low, words.fill(gradient), GRADIENT, weight="bold")

    def badge(self, box: Box) -> None:
        self._rectangle(box, box.height / 2, facecolor=CUSTOM, edgecolor="none")
        self._text(box.x + box.width / 2, box.y + BADGE_BASELINE, BADGE, PAPER, 9.5, "bold")

    def factor(self, curve: Curve, text: str) -> None:
        x, y = curve.label
        ground = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5}
        self._text(x, y + 4, text, GRADIENT, weight="bold", bbox=ground)

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
        bbox: dict[str, object] | None = None,
    ) -> None:
        self.axes.text(
            x,
            baseline,
            text,
            color=color,
            fontsize=0.92 * size,
            fontweight=weight,
            fontfamily=_FONT,
            ha="center",
            va="baseline",
            bbox=bbox,
            parse_math=False,
        )
