"""Draw the three maps of a Jacobian as a PNG."""

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from autograd_doctor import jacobians as heatmap
from autograd_doctor.jacobians import Matrix
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from autograd_course.visualize.jacobian.trace import UNKNOWN, WRONG
from autograd_course.visualize.jacobian.view import View
from autograd_course.visualize.kit.figure import GRAY, INK, PAPER, SANS, SOFT, small_png

_WIDTH, _MAP, _LEAST = 8.9, 2.3, 0.4  # inches: figure width, and a map's maximum and minimum side
_LEFT, _PITCH, _LINE = 0.64, 2.94, 0.18
_TICKS = 8  # if there are at most this many rows, every row has a label
_FEW = 24  # if there are at most this many rows and columns, lines separate them
_FONT: dict[str, Any] = {"fontfamily": SANS, "parse_math": False, "color": INK}
_HATCH = "////"
Cell = tuple[int, int]


def draw(view: View, finding: str, cell: Cell) -> bytes:
    """Draw the maps of a view with the finding above them, and mark the selected cell."""
    above = [*wrap(view.verdict, 120), *wrap(finding, 120), *wrap(view.scale, 120)]
    below = [wrap(filling, 42) for filling in view.fillings]
    rows, columns = len(view.cells.rows), len(view.cells.columns)
    longest = max(rows, columns)
    width, height = (max(_LEAST, _MAP * count / longest) for count in (columns, rows))
    top = 0.95 + _LINE * len(above)
    total = top + height + 0.2 + _LINE * max(map(len, below)) + 0.36
    page = _Page(total)
    page.write(0.1, 0.24, [view.heading], size=10.5, weight="bold")
    page.write(0.1, 0.48, above, size=9)
    for k, ((title, matrix, largest), words) in enumerate(zip(view.maps, below, strict=True)):
        left = _LEFT + _PITCH * k
        page.write(left, top - 0.38, [title], size=10, weight="bold")
        axes = page.axes(left, top, width, height)
        _map(axes, matrix, largest)
        _marks(axes, view, cell, 72 * width / columns)
        _ticks(axes, view, width, height)
        page.write(left, top + height + 0.22, words, size=8, color=SOFT)
    page.figure.legend(
        handles=list(_meanings(view)),
        loc="lower left",
        ncols=5,
        fontsize=8,
        frameon=False,
        bbox_to_anchor=(0.0, 0.0),
        labelcolor=INK,
        handlelength=1.2,
        handleheight=1.0,
    )
    return small_png(page.figure, keep=_shades())


class _Page:
    """A figure with positions in inches from its upper left corner."""

    def __init__(self, height: float) -> None:
        self.height = height
        self.figure = Figure(figsize=(_WIDTH, height), dpi=110, facecolor=PAPER)

    def write(
        self, left: float, down: float, lines: Sequence[str], size: float, **look: Any
    ) -> None:
        for k, line in enumerate(lines):
            at = (left / _WIDTH, 1 - (down + _LINE * k) / self.height)
            self.figure.text(*at, line, fontsize=size, **{**_FONT, **look})

    def axes(self, left: float, down: float, width: float, height: float) -> Axes:
        corner = (left / _WIDTH, 1 - (down + height) / self.height)
        return self.figure.add_axes((*corner, width / _WIDTH, height / self.height))


def _shades() -> list[tuple[int, ...]]:
    """Return the colors of the heat map's palette on a white background."""
    return [
        tuple(round(255 + (part - 255) * opacity / 255) for part in color)
        for color, opacity in heatmap.palette()
    ]


def _map(axes: Axes, matrix: Matrix, largest: float) -> None:
    palette = np.array(_shades(), dtype=np.uint8)
    shades = np.array([[heatmap.shade(entry, largest) for entry in line] for line in matrix])
    axes.imshow(palette[shades], interpolation="nearest", aspect="auto")
    axes.spines[:].set_color(GRAY)


def _marks(axes: Axes, view: View, cell: Cell, side: float) -> None:
    """Hatch the runs of wrong cells, draw the grid, and frame the selected cell."""
    for i, marks in enumerate(view.cells.marks):
        for start, stop in _runs(marks):
            run = Rectangle((start - 0.5, i - 0.5), stop - start, 1, fill=False, hatch=_HATCH)
            run.set(edgecolor=INK, linewidth=0, alpha=0.6)
            axes.add_patch(run)
    for count, group, line in zip(
        (len(view.cells.rows), len(view.cells.columns)),
        view.groups,
        (axes.axhline, axes.axvline),
        strict=True,
    ):
        for k in range(1, count):
            ends = bool(group) and k % group == 0
            if ends or count <= _FEW:
                line(k - 0.5, color=GRAY, linewidth=1.1 if ends else 0.3)
    for color, thick in ((PAPER, 4.5), (INK, 2.2)):
        size = max(8.0, min(side, 30.0))
        (square,) = axes.plot(cell[1], cell[0], "s", markersize=size, clip_on=False)
        square.set(markerfacecolor="none", markeredgecolor=color, markeredgewidth=thick)


def _runs(marks: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each run of wrong cells."""
    start = None
    for k, mark in enumerate([*marks, ""]):
        if start is None and mark == WRONG:
            start = k
        elif start is not None and mark != WRONG:
            yield start, k
            start = None


def _ticks(axes: Axes, view: View, width: float, height: float) -> None:
    """Label the axes with the names of the tensors and the indices of the first and last elements.

    ``width`` and ``height`` are the map's dimensions in inches.
    """
    for axis, labels, name, most in (
        (axes.yaxis, view.cells.rows, view.pair.rows.name, _TICKS),
        (axes.xaxis, view.cells.columns, view.pair.columns.name, 2),
    ):
        count = len(labels)
        chosen = range(count) if count <= most else (0, count - 1)
        short = [labels[k].partition(" … ")[0].removeprefix(name) for k in chosen]
        axis.set_ticks(list(chosen), short)
        axis.set_label_text(name, fontsize=8, color=SOFT)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.xaxis.set_label_coords(0.5, 1 + 0.09 / height)
    axes.yaxis.set_label_coords(-0.47 / width, 0.5)
    if len(view.cells.columns) > _TICKS:
        first, last = axes.get_xticklabels()
        first.set_horizontalalignment("left")
        last.set_horizontalalignment("right")
    axes.tick_params(length=2, labelsize=7, color=GRAY, labelcolor=SOFT, pad=2)


def _meanings(view: View) -> Iterator[Patch]:
    shades = {"negative": heatmap.NEGATIVE, "zero": (255, 255, 255), "positive": heatmap.POSITIVE}
    if any(UNKNOWN in marks for marks in view.cells.marks):
        shades["not differentiable there"] = heatmap.GRAY
    for meaning, color in shades.items():
        red, green, blue = (part / 255 for part in color)
        yield Patch(facecolor=(red, green, blue), edgecolor=GRAY, label=meaning)
    if view.wrong:
        yield Patch(facecolor=PAPER, edgecolor=INK, hatch=_HATCH, label="backward is wrong")
