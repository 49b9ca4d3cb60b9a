"""Draw the variants side by side as a PNG, on the same scale."""

import math
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from autograd_course.visualize.kit.figure import GRAY, INK, PAPER, SOFT, plain_frame, small_png
from autograd_course.visualize.kit.formatting import size
from autograd_course.visualize.memory.describe import verdict
from autograd_course.visualize.memory.trace import MemoryTrace
from autograd_course.visualize.memory.view import (
    BACKWARD,
    END,
    FORWARD,
    Grouping,
    grouping,
    places,
    ticks,
)

Point = tuple[float, float]
_BUDGET = "#b3261e"
# The same eight colors as in widget.css. Dark letters are legible on each of them.
COLORS = (
    "#56b4e9", "#e69f00", "#29b08a", "#f0e442", "#cc79a7", "#e8743b", "#8da0f0", "#a9b1bb",
)  # fmt: skip
_ACROSS, _PANEL, _HEIGHT = 4, 2.7, 2.5  # panels in a row, and the size of a panel in inches
_HATCH, _AGAIN = "////", "..."
_READABLE, _WIDE = 0.07, 0.12  # bands below these fractions of the peak or phase have no letter


def draw(traces: Mapping[str, MemoryTrace], budget: int | None) -> bytes:
    """Draw a panel for each variant: the peak, the budget, and stacked bands of saved bytes."""
    groups = grouping(list(traces.values()))
    marks = ticks(max([budget or 0, *(trace.peak for trace in traces.values())]))
    across = min(len(traces), _ACROSS)
    down = math.ceil(len(traces) / across)
    width = max(_PANEL * across + 0.8, 5.4)
    figure = Figure(
        figsize=(width, _HEIGHT * down + 0.7), dpi=110, facecolor=PAPER, layout="constrained"
    )
    panels = figure.subplots(down, across, sharey=True, squeeze=False)
    for axes in panels.flat[len(traces) :]:
        axes.set_visible(False)
    for axes, (name, trace) in zip(panels.flat, traces.items(), strict=False):
        _panel(axes, name, trace, groups, budget)
        _frame(axes, marks, first=axes in panels[:, 0])
    if budget is not None:
        _label(panels[0, 0], budget)
    figure.legend(
        handles=_legend(groups),
        loc="outside lower center",
        ncols=min(4, len(groups.labels)) if width > 6 else 3,
        fontsize=8.5,
        frameon=False,
    )
    return small_png(figure)


def _panel(axes: Axes, name: str, trace: MemoryTrace, groups: Grouping, budget: int | None) -> None:
    xs = places(trace)
    floor = [0] * len(trace.events)
    bands = groups.bands(trace)
    for group in groups.stacked(trace):
        ceiling = [low + more for low, more in zip(floor, bands[group], strict=True)]
        span = ([*floor, floor[-1]], [*ceiling, ceiling[-1]])
        axes.fill_between(xs, *span, step="post", linewidth=0.6, **_look(groups, group))
        _letter(axes, groups.letter(group), _place(xs, floor, bands[group], trace.peak))
        floor = ceiling
    axes.step(xs, [*floor, floor[-1]], where="post", color=INK, linewidth=1.6)
    _peak(axes, trace, xs)
    judged = ""
    if budget is not None:
        axes.axhline(budget, color=_BUDGET, linestyle=(0, (5, 3)), linewidth=1.5)
        judged = f", {verdict(trace.peak, budget)}"
    axes.set_title(f"{name}\npeak {size(trace.peak)}{judged}", loc="left", color=INK, fontsize=10)


def _look(groups: Grouping, group: int) -> dict[str, Any]:
    hatch = _HATCH if groups.hidden(group) else _AGAIN if groups.again(group) else None
    return {"facecolor": COLORS[group], "edgecolor": PAPER, "hatch": hatch}


def _place(xs: list[float], floor: list[int], row: list[int], top: int) -> Point | None:
    """Return the center of the widest part of a band, or ``None`` if the band is too thin."""
    best: tuple[float, Point] | None = None
    runs = groupby(range(len(row)), key=lambda i: (floor[i], row[i]))
    for (low, high), run in runs:
        first, *rest = run
        left, right = xs[first], xs[(rest or [first])[-1] + 1]
        if (
            high >= _READABLE * top
            and right - left >= _WIDE
            and (best is None or right - left > best[0])
        ):
            best = (right - left, ((left + right) / 2, low + high / 2))
    return best and best[1]


def _letter(axes: Axes, letter: str, at: Point | None) -> None:
    if at:
        ground = {"facecolor": "#ffffff", "edgecolor": "none", "pad": 1.2, "alpha": 0.75}
        look: Any = {"fontsize": 8.5, "ha": "center", "va": "center", "bbox": ground, "zorder": 6}
        axes.annotate(letter, at, color="#16191d", **look)


def _label(axes: Axes, budget: int) -> None:
    ground = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.0, "alpha": 0.8}
    at = (0.03, budget)
    look: Any = {"fontsize": 8.5, "va": "bottom", "bbox": ground, "color": _BUDGET}
    axes.annotate(f"budget {size(budget)}", at, (0, 4), textcoords="offset points", **look)


def _peak(axes: Axes, trace: MemoryTrace, xs: list[float]) -> None:
    if trace.peak:
        axes.plot([xs[trace.peak_event]], [trace.peak], "o", color=INK, markersize=5, zorder=5)


def _frame(axes: Axes, marks: list[tuple[int, str]], first: bool) -> None:
    axes.set(xlim=(0, END), ylim=(0, marks[-1][0] * 1.04))
    axes.set_yticks([value for value, _ in marks], [label for _, label in marks])
    axes.set_xticks([FORWARD / 2, (FORWARD + BACKWARD) / 2], ["forward →", "backward ∂ →"])
    axes.tick_params(labelsize=8.5, colors=SOFT, length=0, labelleft=first)
    axes.axvline(FORWARD, color=GRAY, linewidth=1, linestyle=(0, (2, 2)))
    axes.axvline(BACKWARD, color=GRAY, linewidth=1, linestyle=(0, (2, 2)))
    plain_frame(axes, axis="y")


def _legend(groups: Grouping) -> list[Patch]:
    return [
        Patch(label=f"{groups.letter(group)}  {label}", **_look(groups, group))
        for group, label in enumerate(groups.labels)
    ]
