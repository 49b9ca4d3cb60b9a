"""Draw the lab as a static picture of the staircase, the gradient and the training."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from autograd_course.visualize.kit.figure import GRAY, INK, PAPER, plain_frame, small_png
from autograd_course.visualize.kit.formatting import number
from autograd_course.visualize.stelab.describe import PLACES, climbs, gap, headline, result, tidy
from autograd_course.visualize.stelab.trace import VIEW, WIDTHS, Curve, Estimate, LabTrace
from autograd_course.visualize.stelab.training_comparison import (
    CELLS,
    EVERY,
    REACH,
    STEPS,
    Run,
    TrainingTrace,
    points,
)
from autograd_course.visualize.stelab.view import heights, steepest

CLASSES = ("#a9cfea", "#f6c49f")  # the background colors for class 0 and class 1
# Estimators have different colors and dashes, as on the page. The kit defines the five colors:
# soft, gradient, custom, right and rim. Of all sets of five colors in the kit's style sheet, these
# are the easiest to tell apart for readers who cannot see red, green or blue.
_LOOKS: tuple[dict[str, Any], ...] = (
    {"color": "#5b636e", "linestyle": (0, (1, 1.6))},
    {"color": "#ad4300", "linestyle": (0, (6, 1.6))},
    {"color": "#7a3b8f", "linestyle": "-"},
    {"color": "#00724f", "linestyle": (0, (5, 1.5, 1, 1.5))},
    {"color": "#878f9a", "linestyle": (0, (2.5, 1.2))},
)
_OWN: dict[str, Any] = {"color": INK, "linestyle": (0, (3, 2)), "linewidth": 1.7}
_LEFT, _RIGHT = (0.05, 0.59, 0.43, 0.31), (0.55, 0.59, 0.43, 0.31)  # fractions of the figure


def look(i: int) -> dict[str, Any]:
    """Return the plot style of the estimator with index ``i``."""
    return _LOOKS[i % len(_LOOKS)]


def draw(
    trace: LabTrace, name: str, shown: Estimate, x: float, width: float, training: TrainingTrace
) -> bytes:
    """Draw ``shown`` at ``x``, with the chord slopes for ``width`` and the training below."""
    # All positions are fixed, because a layout engine would take longer than the drawing itself.
    figure = Figure(figsize=(9.0, 7.4), dpi=100, facecolor=PAPER)
    figure.text(0.012, 0.965, headline(name, shown), fontsize=10, color=INK, weight="bold")
    j = WIDTHS.index(width)
    _forward(figure.add_axes(_LEFT), trace, name, shown, x, j)
    _backward(figure.add_axes(_RIGHT), trace, shown, x, j)
    _training(figure, training)
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
    beside = "slope of the chord" if WIDTHS[j] else "true derivative"
    line = {**_look(trace, shown), "linewidth": 2.6, "label": f"∂ of {shown.label}"}
    axes.plot(*_broken(shown.gradient_curve), **line)
    axes.plot(*_broken(stairs.slope_curves[j]), **_OWN, label=beside)
    _place(axes, x, gradient, f"∂ {tidy(gradient)}")
    _frame(axes, f"Backward, for grad_output = 1\n{gap(shown, j)}", steepest(trace))


def _place(axes: Axes, x: float, y: float, text: str) -> None:
    axes.axvline(x, color=GRAY, linewidth=0.9)
    axes.plot([x], [y], "o", color=INK, markersize=7, zorder=5)
    ground: Any = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.0, "alpha": 0.85}
    look: Any = {"fontsize": 10, "weight": "bold", "bbox": ground, "zorder": 6}
    axes.annotate(text, (x, y), (8, 8), textcoords="offset points", **look)
    axes.set_xlabel(f"x = {number(x)}", color=INK, fontsize=9.5)


def _frame(axes: Axes, title: str, ys: Sequence[float]) -> None:
    low, high = ys
    axes.set(xlim=VIEW, ylim=(low, high + 0.22 * (high - low)))  # the space above is for the legend
    axes.set_title(title, loc="left", color=INK, fontsize=9.5)
    axes.legend(fontsize=8.5, loc="upper left", ncols=3, framealpha=1, edgecolor=PAPER)
    plain_frame(axes)
    axes.tick_params(labelsize=8.5, colors=INK)


def _look(trace: LabTrace, shown: Estimate) -> dict[str, Any]:
    return look(trace.names().index(shown.name))


def _broken(curve: Curve) -> tuple[list[float], list[float]]:
    return [x for x, _ in curve], [float("nan") if y is None else y for _, y in curve]


# --------------------------------------------------------------------------------------------------
# The training of all nets: their losses, and the maps of their decisions.
# --------------------------------------------------------------------------------------------------

_GROUND = LinearSegmentedColormap.from_list("classes", CLASSES, N=5)  # keeps the palette small
_MOST_LOSS = 0.85  # ln 2 = 0.69 is the loss of a net that only guesses
_LOSSES = (0.05, 0.08, 0.40, 0.36)
_MAPS = (0.49, 0.0, 0.50, 0.455)  # left, bottom, width, height of the part with the maps


def _training(figure: Figure, training: TrainingTrace) -> None:
    """Draw the training in the lower half of a figure."""
    head = f"{STEPS} training steps with {PLACES[training.place]} quantized; only backward differs"
    figure.text(
        0.012, 0.485, training.notice or head, fontsize=10, color=INK, weight="bold", wrap=True
    )
    if training.notice:
        return
    _losses(figure.add_axes(_LOSSES), training.runs)
    left, bottom, width, height = _MAPS
    columns = max(3, (len(training.runs) + 1) // 2)
    across, down = width / columns, height / 2
    side = min(across * 0.92, down * 0.76)
    for i, run in enumerate(training.runs):
        row, column = divmod(i, columns)
        low = bottom + height - row * down - 0.03 - down * 0.70
        _map(figure.add_axes((left + column * across, low, side, down * 0.70)), i, run)


def _losses(axes: Axes, runs: Sequence[Run]) -> None:
    for i, run in enumerate(runs):
        axes.plot([EVERY * k for k in range(len(run.losses))], run.losses, **look(i), linewidth=2.2)
    axes.set(xlim=(0, STEPS), ylim=(0, _MOST_LOSS))
    axes.set_xlabel("step", color=INK, fontsize=9.5)
    axes.set_title("loss", loc="left", color=INK, fontsize=9.5)
    plain_frame(axes)
    axes.tick_params(labelsize=8.5, colors=INK)


def _map(axes: Axes, i: int, run: Run) -> None:
    shades = [int(digit, 16) for digit in run.shades]
    rows = [shades[k : k + CELLS] for k in range(0, len(shades), CELLS)]
    extent = (-REACH, REACH, -REACH, REACH)
    axes.imshow(rows, cmap=_GROUND, vmin=0, vmax=16, extent=extent, interpolation="nearest")
    positions, labels = points()
    for label, mark in enumerate(("o", "^")):
        these = positions[labels == label]
        axes.plot(these[:, 0].tolist(), these[:, 1].tolist(), mark, color=INK, markersize=1.3)
    axes.set(xticks=[], yticks=[], xlim=(-REACH, REACH), ylim=(-REACH, REACH))
    axes.set_title(run.label, loc="left", fontsize=9.5, color=INK, weight="bold", pad=9)
    axes.set_xlabel(result(run), fontsize=8.5, color=INK, loc="left")
    axes.spines[:].set_color(GRAY)
    key = {**look(i), "linewidth": 6, "transform": axes.transAxes, "clip_on": False}
    axes.plot([0, 1], [1.02, 1.02], **key, solid_capstyle="butt")
