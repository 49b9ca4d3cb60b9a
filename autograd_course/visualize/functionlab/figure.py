"""The lab as a static picture: curve and slopes on the left, the lines that ran on the right."""

from collections.abc import Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from autograd_course.visualize.functionlab import describe
from autograd_course.visualize.functionlab.extent import extent
from autograd_course.visualize.functionlab.figure_source import (
    BACKWARD,
    FORWARD,
    GRAY,
    INK,
    LINE,
    SOFT,
    source_lines,
    write,
)
from autograd_course.visualize.functionlab.listing import Listing
from autograd_course.visualize.functionlab.trace import Position, Step, Sweep
from autograd_course.visualize.functionlab.view import bands, slopes
from autograd_course.visualize.kit.figure import small_png

PAPER, FAINT, WRONG = "#ffffff", "#e3e6ea", "#b3261e"
# Backward is broad and pale, differences narrow and dashed: both are seen where they agree.
BROAD: dict[str, Any] = {"color": BACKWARD, "linewidth": 5.0, "alpha": 0.5}
DASHED: dict[str, Any] = {"color": FORWARD, "linewidth": 1.9, "linestyle": (0, (4, 2))}
_WIDTH, _LEAST_HEIGHT, _DPI = 10.4, 5.0, 110
_LEFT = 4.9  # inches for the plots
_TANGENT = 0.16  # half the length of a tangent, in parts of the axes' width
_FONT = ["DejaVu Sans"]  # they come with matplotlib: the same picture everywhere


def drawn(sweep: Sweep, source: Listing, index: int, steps: Sequence[Step]) -> bytes:
    """Draw the place with that index as PNG; ``steps`` are the lines that have run."""
    position = sweep.positions[index]
    lines = source_lines(sweep, source, position, steps)
    height = max(_LEAST_HEIGHT, 0.5 + LINE * len(lines))
    figure = Figure(figsize=(_WIDTH, height), dpi=_DPI, facecolor=PAPER)
    upper = figure.add_axes((0.055, 0.46, _LEFT / _WIDTH - 0.07, 0.46), facecolor=PAPER)
    lower = figure.add_axes((0.055, 0.11, _LEFT / _WIDTH - 0.07, 0.22), facecolor=PAPER)
    _curve(upper, sweep, position)
    _slopes(lower, sweep, position)
    write(figure, lines, (_LEFT + 0.25) / _WIDTH)
    _sentence(figure, 1 - 0.3 / height, describe.judged(position, sweep.variable), INK, 10.5)
    _sentence(figure, 0.1 / height, describe.overview(sweep), SOFT, 8.5)
    return small_png(figure)


def _sentence(figure: Figure, height: float, text: str, color: str, size: float) -> None:
    weight = "bold" if color == INK else "normal"
    look: Any = {"color": color, "fontsize": size, "fontweight": weight, "fontfamily": _FONT}
    figure.text(0.012, height, text, va="bottom", parse_math=False, **look)


def _curve(axes: Axes, sweep: Sweep, position: Position) -> None:
    low, high = extent(y for _, y in sweep.curve)
    axes.set(xlim=(sweep.positions[0].x, sweep.positions[-1].x), ylim=(low, high))
    _ruled(axes)
    _banded(axes, bands(sweep.positions, "open"), SOFT, "")
    _banded(axes, bands(sweep.positions, "differ"), WRONG, "")
    xs, ys = zip(*((x, _gap(y)) for x, y in sweep.curve), strict=True)
    axes.plot(xs, ys, color=INK, linewidth=2, label=f"forward: {sweep.name}")
    if position.run:
        for slope, sides, look, label in _tangents(position):
            _tangent(axes, position.x, position.run.y, slope, sides, look, label)
        axes.plot([position.x], [position.run.y], "o", color=INK, markersize=7, zorder=5)
    axes.legend(fontsize=8, framealpha=0.9, edgecolor=FAINT)


def _tangents(
    position: Position,
) -> Iterator[tuple[float, tuple[float, float], dict[str, Any], str]]:
    if position.slope is not None:
        label = f"slope by backward: {describe.by_backward(position)}"
        yield position.slope, (-1, 1), BROAD, label
    if position.sides is None or position.verdict in ("jump", "steep"):
        return
    label = f"slope by differences: {describe.by_differences(position)}"
    if position.sides.bent:
        yield position.sides.left, (-1, 0), DASHED, label
        yield position.sides.right, (0, 1), DASHED, ""
    else:
        yield position.sides.central, (-1, 1), DASHED, label


def _tangent(
    axes: Axes, x: float, y: float, slope: float, sides: Any, look: dict[str, Any], label: str
) -> None:
    """Draw a tangent that is equally long on the page, however steep it is."""
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    box = axes.get_window_extent()
    rise = slope * ((x1 - x0) / (y1 - y0)) * (box.height / box.width)  # on the page
    reach = _TANGENT * (x1 - x0) / (1 + rise * rise) ** 0.5
    xs = [x + side * reach for side in sides]
    ys = [y + slope * (at - x) for at in xs]
    axes.plot(xs, ys, label=label or None, **look)


def _slopes(axes: Axes, sweep: Sweep, position: Position) -> None:
    lines = slopes(sweep)
    shown = [value for line in lines.values() for _, value in line]
    axes.set(xlim=(sweep.positions[0].x, sweep.positions[-1].x), ylim=extent(shown, zero=True))
    _ruled(axes)
    _banded(axes, bands(sweep.positions, "differ"), WRONG, "✗")
    _banded(axes, bands(sweep.positions, "open"), SOFT, "?")
    for name, look in (("backward", BROAD), ("differences", DASHED)):
        xs = [x for x, _ in lines[name]]
        axes.plot(xs, [_gap(y) for _, y in lines[name]], **look)
    if lines["chosen"]:
        places, chosen = zip(*lines["chosen"], strict=True)
        axes.plot(places, chosen, "o", color=BACKWARD, markersize=5, alpha=0.8)
    axes.axvline(position.x, color=INK, linewidth=1, linestyle=":")
    title = f"slope over {sweep.variable}: backward (broad), differences (dashed)"
    axes.set_title(title, loc="left", pad=15, fontsize=8.5, color=INK, fontfamily=_FONT)


def _ruled(axes: Axes) -> None:
    axes.grid(color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GRAY)
    axes.tick_params(labelsize=8, colors=SOFT)


def _banded(axes: Axes, regions: Sequence[tuple[float, float]], color: str, sign: str) -> None:
    """Shade stretches of x, with a sign above each: color alone would not tell."""
    look: Any = {"color": color, "ha": "center", "va": "bottom", "fontfamily": _FONT}
    for low, high in regions:
        axes.axvspan(low, high, facecolor=color, alpha=0.07, linewidth=0)
        axes.text((low + high) / 2, 1.01, sign, transform=axes.get_xaxis_transform(), **look)


def _gap(y: float | None) -> float:
    return float("nan") if y is None else y
