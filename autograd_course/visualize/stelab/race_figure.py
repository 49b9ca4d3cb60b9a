"""The training of all nets, drawn: their losses, and the map of what each decides."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from autograd_course.visualize.stelab.describe import PLACES, result
from autograd_course.visualize.stelab.look import CLASSES, FAINT, GRAY, INK, look
from autograd_course.visualize.stelab.task import CELLS, REACH, points
from autograd_course.visualize.stelab.training_comparison import EVERY, STEPS, RaceTrace, Run

_GROUND = LinearSegmentedColormap.from_list(
    "classes", CLASSES, N=5
)  # few colors, for a small palette
_MOST_LOSS = 0.85  # ln 2 = 0.69 is that of a net that knows nothing
_LOSSES = (0.05, 0.08, 0.40, 0.36)
_MAPS = (0.49, 0.0, 0.50, 0.455)  # left, bottom, width, height of the part with the maps


def draw_race(figure: Figure, race: RaceTrace) -> None:
    """Draw into the lower half of a figure."""
    head = f"{STEPS} steps of training, {PLACES[race.place]} quantized; only backward differs"
    figure.text(0.012, 0.485, race.notice or head, fontsize=10, color=INK, weight="bold", wrap=True)
    if race.notice:
        return
    _losses(figure.add_axes(_LOSSES), race.runs)
    left, bottom, width, height = _MAPS
    columns = max(3, (len(race.runs) + 1) // 2)
    across, down = width / columns, height / 2
    side = min(across * 0.92, down * 0.76)
    for i, run in enumerate(race.runs):
        row, column = divmod(i, columns)
        low = bottom + height - row * down - 0.03 - down * 0.70
        _map(figure.add_axes((left + column * across, low, side, down * 0.70)), i, run)


def _losses(axes: Axes, runs: Sequence[Run]) -> None:
    for i, run in enumerate(runs):
        axes.plot([EVERY * k for k in range(len(run.losses))], run.losses, **look(i), linewidth=2.2)
    axes.set(xlim=(0, STEPS), ylim=(0, _MOST_LOSS))
    axes.set_xlabel("step", color=INK, fontsize=9.5)
    axes.set_title("loss", loc="left", color=INK, fontsize=9.5)
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8.5, colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GRAY)


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
