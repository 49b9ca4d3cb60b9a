"""Drawing in pixels on a matplotlib figure, without any state of pyplot."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from autograd_course.visualize.tiles.heat import LEVELS
from autograd_course.visualize.tiles.stage import Box

INK, SOFT, RIM, GRID = "#22262b", "#5b636e", "#878f9a", "#e3e6ea"
VALUE, BACK = "#00609a", "#ad4300"
_DEEPEST = 0.52  # opacity of the highest level


class Canvas:
    """One axes over the whole figure, a unit a point, its origin at the upper left."""

    def __init__(self, figure: Figure, width: float, height: float) -> None:
        figure.set_facecolor("#ffffff")
        self.axes = figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(-6, width), ylim=(height, -2))
        self.axes.axis("off")

    def rectangle(
        self, box: Box, edge: str, width: float, style: Any = "-", fill: str = "none", **look: Any
    ) -> None:
        """Draw a rectangle; ``look`` goes to matplotlib."""
        x, y, wide, high = box
        patch = Rectangle((x, y), wide, high, edgecolor=edge, facecolor=fill, **look)
        patch.set(linewidth=width, linestyle=style)
        self.axes.add_artist(patch)

    def heat(self, box: Box, rows: Sequence[str], color: str, across: bool = False) -> None:
        """Draw rows of digits as shades of a color."""
        levels = np.array([[int(digit) for digit in row] for row in rows], dtype=float)
        opacity = np.where(levels > 0, 0.03 + (_DEEPEST - 0.03) * levels / LEVELS, 0.0)[..., None]
        pixels = opacity * np.array(to_rgb(color)) + (1 - opacity)
        x, y, wide, high = box
        limits = self.axes.get_xlim(), self.axes.get_ylim()
        self.axes.imshow(
            pixels.swapaxes(0, 1) if across else pixels,
            extent=(x, x + wide, y + high, y),
            interpolation="nearest",
            aspect="auto",
            zorder=1.5,
        )
        self.axes.set(xlim=limits[0], ylim=limits[1])

    def line(
        self, points: Sequence[tuple[float, float]], color: str, width: float, style: Any = "-"
    ) -> None:
        """Draw a line through points."""
        xs, ys = zip(*points, strict=True)
        self.axes.plot(xs, ys, color=color, linewidth=width, linestyle=style)

    def arrow(self, points: Sequence[tuple[float, float]], head: str) -> None:
        """Draw a thin line through points, with a head at its end."""
        self.line(points, SOFT, 0.9)
        x, y = points[-1]
        self.axes.plot([x], [y], color=SOFT, marker=head, markersize=3)

    def trail(self, points: Sequence[tuple[float, float]], axis: int) -> None:
        """Join the points that have the same coordinate on an axis; a lone one is a dot."""
        groups: dict[float, list[tuple[float, float]]] = {}
        for point in points:
            groups.setdefault(point[axis], []).append(point)
        for group in groups.values():
            xs, ys = zip(*group, strict=True)
            self.axes.plot(xs, ys, color=SOFT, linewidth=2, marker="o", markersize=2.4)

    def dashes(self, points: Sequence[tuple[float, float]]) -> None:
        """Mark points by a small dash."""
        xs, ys = [x for x, _ in points], [y for _, y in points]
        self.axes.plot(xs, ys, color=RIM, linestyle="none", marker="_", markersize=3)

    def text(
        self,
        x: float,
        baseline: float,
        text: str,
        color: str = INK,
        size: float = 10.5,
        weight: str = "normal",
        anchor: str = "center",
    ) -> None:
        """Write text, its baseline at a height."""
        look: dict[str, Any] = {"color": color, "fontsize": size, "fontweight": weight}
        look["fontfamily"] = "DejaVu Sans"  # comes with matplotlib: the same picture everywhere
        self.axes.text(x, baseline, text, ha=anchor, va="baseline", parse_math=False, **look)
