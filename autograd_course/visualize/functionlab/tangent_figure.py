"""The figure of a curve with two tangents."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from autograd_course.visualize.kit.figure import small_png

Point = tuple[float, float]
_INK, _PAPER, _FAINT, _GRAY = "#22262b", "#ffffff", "#d9dce1", "#878f9a"
# The first line is broad and pale, the second narrow and dashed: both are seen where they agree.
_LOOKS: tuple[dict[str, Any], ...] = (
    {"linestyle": "-", "linewidth": 6.0, "alpha": 0.45},
    {"linestyle": (0, (5, 2)), "linewidth": 2.2},
)
_LENGTH = 0.55  # of a tangent, in parts of the curve's half


@dataclass(frozen=True)
class Line:
    """A tangent: slope, color, and what the legend says."""

    slope: float
    color: str
    label: str


def drawn(
    title: str, name: str, curve: Sequence[Point], at: Point, lines: tuple[Line, Line]
) -> bytes:
    """Draw a curve and two tangents at a point as PNG."""
    figure = Figure(figsize=(5.6, 3.4), dpi=110, facecolor=_PAPER, layout="constrained")
    axes = figure.add_subplot(facecolor=_PAPER)
    xs, ys = zip(*curve, strict=True)
    x, y = at
    axes.plot(xs, ys, color=_INK, linewidth=2, label=name)
    reach = _LENGTH * (xs[-1] - x)
    for line, look in zip(lines, _LOOKS, strict=True):
        ends = [y - line.slope * reach, y + line.slope * reach]
        axes.plot([x - reach, x + reach], ends, color=line.color, label=line.label, **look)
    axes.plot([x], [y], "o", color=_INK, markersize=7, zorder=5)
    _frame(axes, ys)
    axes.set_title(title, loc="left", color=_INK, fontsize=11)
    axes.legend(fontsize=9, framealpha=0.9, edgecolor=_FAINT)
    return small_png(figure)


def _frame(axes: Axes, ys: Sequence[float]) -> None:
    finite = [y for y in ys if math.isfinite(y)] or [0.0]
    low, high = min(finite), max(finite)
    room = 0.15 * (high - low) or 1.0
    axes.set(ylim=(low - room, high + room), xlabel="x")
    axes.grid(color=_FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_GRAY)
