"""The lab as a static picture: staircase, gradient, training."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from autograd_course.visualize.kit.figure import small_png
from autograd_course.visualize.kit.formatting import number
from autograd_course.visualize.stelab.curves import Curve
from autograd_course.visualize.stelab.describe import climbs, gap, headline, tidy
from autograd_course.visualize.stelab.look import FAINT, GRAY, INK, PAPER, look
from autograd_course.visualize.stelab.race_figure import draw_race
from autograd_course.visualize.stelab.trace import VIEW, WIDTHS, Estimate, LabTrace
from autograd_course.visualize.stelab.training_comparison import RaceTrace
from autograd_course.visualize.stelab.view import heights, steepest

_OWN: dict[str, Any] = {"color": INK, "linestyle": (0, (3, 2)), "linewidth": 1.7}
_LEFT, _RIGHT = (0.05, 0.59, 0.43, 0.31), (0.55, 0.59, 0.43, 0.31)  # of the figure


def png(
    trace: LabTrace, name: str, shown: Estimate, x: float, width: float, race: RaceTrace
) -> bytes:
    """Draw ``shown`` at ``x`` with the chord slopes of ``width``, and below it the race."""
    # Everything has its place: a layout engine would take longer than all the drawing.
    figure = Figure(figsize=(9.0, 7.4), dpi=100, facecolor=PAPER)
    figure.text(0.012, 0.965, headline(name, shown), fontsize=10, color=INK, weight="bold")
    j = WIDTHS.index(width)
    _forward(figure.add_axes(_LEFT), trace, name, shown, x, j)
    _backward(figure.add_axes(_RIGHT), trace, shown, x, j)
    draw_race(figure, race)
    return small_png(figure)


def _forward(axes: Axes, trace: LabTrace, name: str, shown: Estimate, x: float, j: int) -> None:
    stairs, i, width = trace.staircase_of(shown), trace.xs.index(x), WIDTHS[j]
    axes.plot(*_broken(stairs.curve), color=INK, linewidth=4, label=name)
    line = {**_look(trace, shown), "linewidth": 1.8, "label": "surrogate"}
    axes.plot(*_broken(shown.line), **line)
    if width:
        foot, slope = stairs.feet[j][i], stairs.slopes[j][i] or 0.0
        ends = [x - width, x + width], [foot, foot + 2 * width * slope]
        axes.plot(*ends, **_OWN, label=f"chord over x ± {width:g}")
    _place(axes, x, stairs.values[i], tidy(stairs.values[i]))
    _frame(axes, f"Forward\n{climbs(shown, trace)}", heights(trace))


def _backward(axes: Axes, trace: LabTrace, shown: Estimate, x: float, j: int) -> None:
    stairs, gradient = trace.staircase_of(shown), shown.gradients[trace.xs.index(x)]
    beside = "slope of that chord" if WIDTHS[j] else "true derivative"
    line = {**_look(trace, shown), "linewidth": 2.6, "label": f"∂ of {shown.label}"}
    axes.plot(*_broken(shown.gradient_curve), **line)
    axes.plot(*_broken(stairs.slope_curves[j]), **_OWN, label=beside)
    _place(axes, x, gradient, f"∂ {tidy(gradient)}")
    _frame(axes, f"Backward, for grad_output = 1\n{gap(shown, j)}", steepest(trace))


def _place(axes: Axes, x: float, y: float, text: str) -> None:
    axes.axvline(x, color=GRAY, linewidth=0.9)
    axes.plot([x], [y], "o", color=INK, markersize=7, zorder=5)
    ground: dict[str, Any] = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.0, "alpha": 0.85}
    beside: dict[str, Any] = {
        "textcoords": "offset points",
        "fontsize": 10,
        "weight": "bold",
        "bbox": ground,
    }
    axes.annotate(text, (x, y), (8, 8), zorder=6, **beside)
    axes.set_xlabel(f"x = {number(x)}", color=INK, fontsize=9.5)


def _frame(axes: Axes, title: str, ys: Sequence[float]) -> None:
    low, high = ys
    axes.set(xlim=VIEW, ylim=(low, high + 0.22 * (high - low)))  # above is room for the legend
    axes.set_title(title, loc="left", color=INK, fontsize=9.5)
    axes.legend(fontsize=8.5, loc="upper left", ncols=3, framealpha=1, edgecolor=PAPER)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8.5, colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GRAY)


def _look(trace: LabTrace, shown: Estimate) -> dict[str, Any]:
    return look(trace.names().index(shown.name))


def _broken(curve: Curve) -> tuple[list[float], list[float]]:
    return [x for x, _ in curve], [float("nan") if y is None else y for _, y in curve]
