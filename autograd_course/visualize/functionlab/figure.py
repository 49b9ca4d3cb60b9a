"""Draw the lab as a static picture: the curve and slopes on the left, the source on the right."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from autograd_course.visualize.functionlab import describe
from autograd_course.visualize.functionlab.lines import Listing, Phase, Step
from autograd_course.visualize.functionlab.trace import Position, Sweep
from autograd_course.visualize.functionlab.view import bands, extent, slopes
from autograd_course.visualize.kit.figure import (
    GRADIENT,
    GRAY,
    INK,
    MONO,
    PAPER,
    SANS,
    SOFT,
    VALUE,
    plain_frame,
    small_png,
)

GRID, WRONG = "#e3e6ea", "#b3261e"
# Backward's line is wide and pale, and the finite differences' line is narrow and dashed, so that
# both are visible when they agree.
BROAD: dict[str, Any] = {"color": GRADIENT, "linewidth": 5.0, "alpha": 0.5}
DASHED: dict[str, Any] = {"color": VALUE, "linewidth": 1.9, "linestyle": (0, (4, 2))}
_WIDTH, _LEAST_HEIGHT, _DPI = 10.4, 5.0, 110
_LEFT = 4.9  # the width of the plots in inches
_TANGENT = 0.16  # half the length of a tangent, as a fraction of the width of the plot
LINE = 0.168  # the height of a source line in inches
_CHARACTER = 0.0654  # the width of a source character in inches
_COLUMNS = 80  # the maximum number of characters in a source row and its note
_MOST_LINES = 44


def draw(sweep: Sweep, source: Listing, index: int, steps: Sequence[Step]) -> bytes:
    """Draw the position with this index as a PNG. ``steps`` contains the lines that ran."""
    position = sweep.positions[index]
    lines = _source_lines(sweep, source, position, steps)
    height = max(_LEAST_HEIGHT, 0.5 + LINE * len(lines))
    figure = Figure(figsize=(_WIDTH, height), dpi=_DPI, facecolor=PAPER)
    upper = figure.add_axes((0.055, 0.46, _LEFT / _WIDTH - 0.07, 0.46), facecolor=PAPER)
    lower = figure.add_axes((0.055, 0.11, _LEFT / _WIDTH - 0.07, 0.22), facecolor=PAPER)
    _curve(upper, sweep, position)
    _slopes(lower, sweep, position)
    _source(figure, lines, (_LEFT + 0.25) / _WIDTH)
    _sentence(figure, 1 - 0.3 / height, describe.judged(position, sweep.variable), INK, 10.5)
    _sentence(figure, 0.1 / height, describe.overview(sweep), SOFT, 8.5)
    return small_png(figure)


def _sentence(figure: Figure, height: float, text: str, color: str, size: float) -> None:
    weight = "bold" if color == INK else "normal"
    look: Any = {"color": color, "fontsize": size, "fontweight": weight, "fontfamily": SANS}
    figure.text(0.012, height, text, va="bottom", parse_math=False, **look)


def _curve(axes: Axes, sweep: Sweep, position: Position) -> None:
    low, high = extent(y for _, y in sweep.curve)
    axes.set(xlim=(sweep.positions[0].x, sweep.positions[-1].x), ylim=(low, high))
    plain_frame(axes, color=GRID)
    axes.tick_params(labelsize=8, colors=SOFT)
    _banded(axes, bands(sweep.positions, "open"), SOFT, "")
    _banded(axes, bands(sweep.positions, "differ"), WRONG, "")
    xs, ys = zip(*((x, _gap(y)) for x, y in sweep.curve), strict=True)
    axes.plot(xs, ys, color=INK, linewidth=2, label=f"forward: {sweep.name}")
    if position.run:
        for slope, sides, look, label in _tangents(position):
            _tangent(axes, position.x, position.run.y, slope, sides, look, label)
        axes.plot([position.x], [position.run.y], "o", color=INK, markersize=7, zorder=5)
    axes.legend(fontsize=8, framealpha=0.9, edgecolor=GRID)


def _tangents(
    position: Position,
) -> Iterator[tuple[float, tuple[float, float], dict[str, Any], str]]:
    if position.slope is not None:
        label = f"slope from backward: {describe.by_backward(position)}"
        yield position.slope, (-1, 1), BROAD, label
    if position.sides is None or position.verdict in ("jump", "steep"):
        return
    label = f"slope from finite differences: {describe.by_differences(position)}"
    if position.sides.bent:
        yield position.sides.left, (-1, 0), DASHED, label
        yield position.sides.right, (0, 1), DASHED, ""
    else:
        yield position.sides.central, (-1, 1), DASHED, label


def _tangent(
    axes: Axes, x: float, y: float, slope: float, sides: Any, look: dict[str, Any], label: str
) -> None:
    """Draw a tangent. Its length on the page is the same for every slope."""
    (x0, x1), (y0, y1) = axes.get_xlim(), axes.get_ylim()
    box = axes.get_window_extent()
    rise = slope * ((x1 - x0) / (y1 - y0)) * (box.height / box.width)  # measured on the page
    reach = _TANGENT * (x1 - x0) / (1 + rise * rise) ** 0.5
    xs = [x + side * reach for side in sides]
    ys = [y + slope * (at - x) for at in xs]
    axes.plot(xs, ys, label=label or None, **look)


def _slopes(axes: Axes, sweep: Sweep, position: Position) -> None:
    lines = slopes(sweep)
    shown = [value for line in lines.values() for _, value in line]
    axes.set(xlim=(sweep.positions[0].x, sweep.positions[-1].x), ylim=extent(shown, zero=True))
    plain_frame(axes, color=GRID)
    axes.tick_params(labelsize=8, colors=SOFT)
    _banded(axes, bands(sweep.positions, "differ"), WRONG, "✗")
    _banded(axes, bands(sweep.positions, "open"), SOFT, "?")
    for name, look in (("backward", BROAD), ("differences", DASHED)):
        xs = [x for x, _ in lines[name]]
        axes.plot(xs, [_gap(y) for _, y in lines[name]], **look)
    if lines["chosen"]:
        places, chosen = zip(*lines["chosen"], strict=True)
        axes.plot(places, chosen, "o", color=GRADIENT, markersize=5, alpha=0.8)
    axes.axvline(position.x, color=INK, linewidth=1, linestyle=":")
    title = f"slope over {sweep.variable}: backward (thick), finite differences (dashed)"
    axes.set_title(title, loc="left", pad=15, fontsize=8.5, color=INK, fontfamily=SANS)


def _banded(axes: Axes, regions: Sequence[tuple[float, float]], color: str, sign: str) -> None:
    """Shade intervals of x. A symbol above each interval identifies it without color."""
    look: Any = {"color": color, "ha": "center", "va": "bottom", "fontfamily": SANS}
    for low, high in regions:
        axes.axvspan(low, high, facecolor=color, alpha=0.07, linewidth=0)
        axes.text((low + high) / 2, 1.01, sign, transform=axes.get_xaxis_transform(), **look)


def _gap(y: float | None) -> float:
    return float("nan") if y is None else y


# --------------------------------------------------------------------------------------------------
# The source: its rows, the effect of each row, and the values that ctx stores.
# --------------------------------------------------------------------------------------------------

Line = tuple[str, str, int]  # text, color, and indentation in characters


def _source_lines(
    sweep: Sweep, source: Listing, position: Position, steps: Sequence[Step]
) -> list[Line]:
    """Return as many lines as fit on the page."""
    lines = list(_lines(sweep, source, position, steps))
    return lines if len(lines) <= _MOST_LINES else [*lines[: _MOST_LINES - 1], ("…", SOFT, 0)]


def _lines(
    sweep: Sweep, source: Listing, position: Position, steps: Sequence[Step]
) -> Iterator[Line]:
    colors: Mapping[Phase, str] = {"forward": VALUE, "backward": GRADIENT}
    notes, ran = describe.noted(steps), {step.row for step in steps}
    for phase in ("forward", "backward"):
        for part in (part for part in source.parts if part.phase == phase):
            for index, row in enumerate(part.rows, part.first):
                note = f"  {notes[index]}" if notes.get(index) else ""
                yield from _annotated(row, note, colors[part.phase], index in ran)
        if phase == "forward":
            yield from _held(source, position)
    yield "", INK, 0
    yield describe.sent_back(position, sweep.grad_output), GRADIENT, 0


def _held(source: Listing, position: Position) -> Iterator[Line]:
    yield "", INK, 0
    if source.own and position.run:
        kept = [describe.held(one) for one in position.run.kept] or ["nothing"]
        for word, text in zip(["ctx stores", *[""] * len(kept)], kept, strict=False):
            yield f"{word:10} {text}", SOFT, 0
        yield "", INK, 0


def _annotated(row: str, note: str, color: str, ran: bool) -> Iterator[Line]:
    yield row, INK if ran else GRAY, 0
    if note and len(row) + len(note) <= _COLUMNS:
        yield note, color, len(row)  # on the same line
    elif note:
        yield f"→{note}"[: _COLUMNS - 6], color, 6


def _source(figure: Figure, lines: Sequence[Line], left: float) -> None:
    """Write the source lines from the top, with the effect of each line next to it if it fits."""
    (width, height), at = figure.get_size_inches(), 0.62 - LINE
    look: Any = {"fontsize": 7.8, "fontfamily": MONO, "va": "center", "parse_math": False}
    for index, (text, color, after) in enumerate(lines):
        beside = after > 0 and not text.startswith("→")
        at += 0 if beside and index else LINE
        place = left + after * _CHARACTER / width, 1 - (at - LINE) / height
        figure.text(*place, text, color=color, **look)
