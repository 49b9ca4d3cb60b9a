"""The parts of the picture as artists of matplotlib."""

from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, PathPatch, Polygon
from matplotlib.path import Path

from autograd_course.visualize.flow.columns import Column
from autograd_course.visualize.flow.face import (
    BADGE_BASELINE,
    BASELINES,
    GAUGE_RISE,
    PARTIAL,
    UNLIKE,
    UNLIKE_SIZE,
    behind,
    gauge_ends,
    label_box,
    map_corners,
    radius,
    unlike_card,
    unlike_label,
)
from autograd_course.visualize.flow.layout import BADGE_TEXT, LINE, TITLE, Box
from autograd_course.visualize.flow.marks import length, look, thickness
from autograd_course.visualize.flow.png_grid import Grid
from autograd_course.visualize.flow.routes import Curve
from autograd_course.visualize.flow.script import Card, Script

INK, PAPER, CARD, EDGE, SOFT = "#22262b", "#ffffff", "#f5f6f8", "#878f9a", "#5b636e"
VALUE, GRADIENT, CUSTOM, CUSTOM_CARD = "#00609a", "#ad4300", "#7a3b8f", "#f8effb"
# A gradient's sign: positive and mixed vermilion, negative blue and dashed.
SIGNS = {"plus": "#d55e00", "minus": "#0072b2", "mixed": "#d55e00", "zero": EDGE}
SIGNS["broken"] = "#b3261e"
DASHED, TRACK = (0, (1.6, 1.1)), "#c8cdd4"
FONT = ["DejaVu Sans"]  # comes with matplotlib: the same picture everywhere
KEY = "lines and bars: size of ∂, logarithmic; dashed blue: ∂ is negative"
Part = tuple[float, float, float, float]


class Canvas:
    """A part of a figure: left, bottom, width and height, from 0 to 1; it shows one column."""

    def __init__(self, figure: Figure, part: Part, column: Column) -> None:
        self.axes = figure.add_axes(part)
        self.axes.set(xlim=(column.left, column.right), ylim=(column.bottom, column.top))
        self.axes.axis("off")
        self.grid = Grid()

    def cells(self) -> None:
        """Draw the heat maps' cells, collected until now."""
        for artist in self.grid.artists():
            self.axes.add_artist(artist)

    def edge(self, curve: Curve, mark: str) -> None:
        """Draw an edge in the look of its gradient."""
        codes = [Path.MOVETO] + [Path.CURVE4] * (len(curve.points) - 1)
        line, color = Path(list(curve.points), codes), SIGNS[look(mark)]
        style = {"edgecolor": color, "linewidth": thickness(mark), "capstyle": "butt"}
        dash = DASHED if look(mark) == "minus" else "-"
        self.axes.add_artist(PathPatch(line, fill=False, linestyle=dash, **style))
        self.axes.add_artist(Polygon(list(curve.arrow), facecolor=color, edgecolor="none"))

    def card(self, box: Box, card: Card, words: Script) -> None:
        """Draw a card with all that stands on it."""
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
        """Write an edge's local factor."""
        x, y = curve.label
        ground = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5}
        self._text(x, y + 4, text, GRADIENT, weight="bold", bbox=ground)

    def unlike_card(self, box: Box) -> None:
        """Mark a card that differs from its counterpart in another flow."""
        self._unlike(*unlike_card(box))

    def unlike_factor(self, curve: Curve, text: str) -> None:
        """Mark a local factor that differs from its counterpart's."""
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
