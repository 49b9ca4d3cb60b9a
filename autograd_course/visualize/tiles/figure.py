"""Draw the static picture of the matrix at one step, the order of the tiles, and the memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from autograd_course.visualize.kit.figure import GRADIENT, GRAY, INK, SANS, SOFT, VALUE, small_png
from autograd_course.visualize.tiles.view import LEVELS, View, at

GRID = "#e3e6ea"
Point = tuple[float, float]
_MAP, _ROOM, _ASIDE = 108, 38, 272  # an order map's side, the gap after it, the right column
_NUMBERED = 12  # the minimum size in pixels of a numbered tile in an order map
_PIXELS, _SHARP = 72, 130
_NAMES = (("grad_q", "∂Q"), ("q", "Q"), ("out", "O"), ("grad_out", "∂O"))
_ABOVE = (("grad_v", "∂Vᵀ"), ("grad_k", "∂Kᵀ"), ("v", "Vᵀ"), ("k", "Kᵀ"))


def draw(view: View, step: int) -> bytes:
    """Draw a view after a step. The same view and step always give the same bytes."""
    layout, now = Layout(view), at(view, step)
    width, height = layout.width + 24 + _ASIDE, max(layout.height, 300.0) + 8
    figure = Figure(figsize=(width / _PIXELS, height / _PIXELS), dpi=_SHARP)
    canvas = Canvas(figure, width, height)
    back = now["phase"] in ("backward", "end")
    _strips(canvas, layout, now, back)
    _tiles(canvas, layout, now, back)
    _rows(canvas, layout, now, back)
    for place, phase in enumerate(("forward", "backward")):
        _order(canvas, view, phase, layout.width + 24 + place * (_MAP + _ROOM), now)
    _memory(canvas, view, now, layout.width + 24, "backward" if back else "forward")
    return small_png(figure)


def _strips(canvas: Canvas, layout: Layout, now: dict[str, Any], back: bool) -> None:
    given, tile = layout.view["given"], now["tile"]
    for lines, axis in ((_NAMES, 0), (_ABOVE, 1)):
        for name, label in lines:
            gradient = name.startswith("grad")
            for index, (start, stop) in enumerate(layout.blocks[axis]):
                values = now["filled"].get(f"{name} {index}")
                if name in given and (back or not gradient):
                    values = given[name][start:stop]
                box = layout.block(name, start, stop)
                color = GRADIENT if gradient else VALUE
                if values:
                    canvas.heat(box, values, color, across=axis == 1)
                used = back != (name == "out") if gradient or name == "out" else True
                held = used and tile is not None and tile[axis] == index
                style = "--" if gradient else "-"
                canvas.rectangle(box, color if held else GRAY, 2.4 if held else 0.9, style)
            x, y, anchor = layout.label(name)
            canvas.text(x, y, label, anchor=anchor)


def _tiles(canvas: Canvas, layout: Layout, now: dict[str, Any], back: bool) -> None:
    done = now["trail"][:-1] if now["tile"] else now["trail"]
    skipped = layout.view["skipped"]
    for i, _ in enumerate(layout.blocks[0]):
        for j, _ in enumerate(layout.blocks[1]):
            hatch = "////" if [i, j] in skipped else None
            fill = GRID if [i, j] in done else "#ffffff" if hatch else "#f5f6f8"
            canvas.rectangle(layout.tile(i, j), GRAY, 0.8, fill=fill, hatch=hatch)
    if now["tile"]:
        box, color = layout.tile(*now["tile"]), GRADIENT if back else VALUE
        canvas.heat(box, now["cells"]["heat"], VALUE)
        canvas.rectangle(box, color, 2.8, "--" if back else "-")
        for i, row in enumerate(now["cells"].get("texts", ())):
            for j, text in enumerate(row):
                canvas.text(*layout.number_at(now["tile"], i, j), text, size=9.0, anchor="center")
    canvas.dashes([layout.pair_middle(i, j) for i, j in layout.hidden])
    canvas.trail([layout.middle(*place) for place in done], 1 if not back else 0)


def _rows(canvas: Canvas, layout: Layout, now: dict[str, Any], back: bool) -> None:
    bar = "Σ P, max 1" if back else f"ℓ, max {layout.view['longest']}"
    canvas.text(layout.bar, layout.top - 6, bar, anchor="left")
    for head, x in zip(
        ("", "D", "", "L") if back else ("m", "ℓ", "×r", "L"), layout.ends, strict=True
    ):
        if layout.figured:
            canvas.text(x, layout.top - 6, head, anchor="right")
    for start, _ in layout.view["rows"]:
        y = layout.top + start * layout.cell
        canvas.line([(layout.right + 6, y), (max(layout.end, layout.after - 16), y)], GRID, 0.8)
    current = range(*layout.view["rows"][now["tile"][0]]) if now["tile"] else range(0)
    for query in range(layout.n):
        figures = now["figures"].get(str(query), layout.view["begin"])
        _row(canvas, layout, query, figures, query in current)
    canvas.line([(layout.end, layout.top), (layout.end, layout.height - 3)], GRAY, 1, (0, (2, 3)))


def _row(canvas: Canvas, layout: Layout, query: int, row: dict[str, Any], now: bool) -> None:
    weight = "bold" if now else "normal"
    y = layout.top + (query + 0.5) * layout.cell
    if layout.figured:
        for names, x in zip(COLUMNS, layout.ends, strict=True):
            text = next((row["texts"][name] for name in names if name in row["texts"]), "")
            canvas.text(x, y + 4, text, weight=weight, anchor="right")
        if now and row["factor"]:
            canvas.text(layout.ends[2], y + 4, row["factor"], weight="bold", anchor="right")
    begin = layout.bar
    for place, part in enumerate(row["parts"]):
        newest = now and place == len(row["parts"]) - 1
        box = layout.bar_box(query, begin, part)
        canvas.rectangle(box, "#ffffff", 0.8, fill=VALUE, alpha=1.0 if newest else 0.35)
        begin += box[2]
    if now and row["ghost"]:
        canvas.rectangle(layout.bar_box(query, layout.bar, row["ghost"]), INK, 1.2, "--")


def _order(canvas: Canvas, view: View, phase: str, x: float, now: dict[str, Any]) -> None:
    tiles = [f["tile"] for f in view["frames"] if f["phase"] == phase and f["tile"]]
    rows, columns = len(view["rows"]), len(view["columns"])
    side, top = _MAP / max(rows, columns), 30.0
    corners = {(i, j): (x + j * side, top + i * side) for i in range(rows) for j in range(columns)}
    for (i, j), (left, high) in corners.items():
        box = (left + 0.5, high + 0.5, side - 1, side - 1)
        hatch = "////" if [i, j] in view["skipped"] else None
        rim = GRAY if side >= _NUMBERED else GRID
        canvas.rectangle(box, rim, 0.6, fill="#ffffff" if hatch else "#f5f6f8", hatch=hatch)
    order = [corners[i, j] for i, j in tiles]
    if side >= _NUMBERED:
        _numbers(canvas, order, side)
    else:
        _ways(canvas, order, side, phase)
    if now["phase"] == phase and now["tile"]:
        color = VALUE if phase == "forward" else GRADIENT
        canvas.rectangle((*corners[tuple(now["tile"])], side, side), color, 2.0)
    arrow = "→" if phase == "forward" else "↓"
    canvas.text(x, 20, f"{phase} {arrow}", weight="bold", anchor="left")


def _numbers(canvas: Canvas, corners: list[Point], side: float) -> None:
    """Write numbers in the tiles that show their order."""
    size = min(9.0, 0.42 * side)
    for number, (x, y) in enumerate(corners, 1):
        canvas.text(x + side / 2, y + side / 2 + 0.36 * size, str(number), size=size)


def _ways(canvas: Canvas, corners: list[Point], side: float, phase: str) -> None:
    """If the tiles are tiny, draw a line along each row in forward and each column in backward."""
    middles = [(x + side / 2, y + side / 2) for x, y in corners]
    along, head = (1, ">") if phase == "forward" else (0, "v")
    for _, way in groupby(middles, key=lambda point: point[along]):
        canvas.arrow(list(way), head)


def _memory(canvas: Canvas, view: View, now: dict[str, Any], x: float, phase: str) -> None:
    y, full = 30.0 + _MAP + 34, _ASIDE - 136.0
    canvas.text(x, y, "in memory at once", weight="bold", anchor="left")
    none = {"text": "nothing", "square": 0, "all": 0}
    turns = (("this tile", now["held"] or none), ("full matrix", view["whole"][phase]))
    for place, (label, held) in enumerate(turns):
        top = y + 10 + 22 * place
        canvas.text(x, top + 11, label, anchor="left")
        square, rest = full * held["square"], full * (held["all"] - held["square"])
        box = (x + 66, top, square, 14)
        canvas.rectangle(box, INK, 0.8, fill="#ffffff", hatch="/////")
        canvas.rectangle((x + 66 + square, top, rest, 14), GRAY, 0.8, fill=GRAY)
        canvas.text(x + _ASIDE - 6, top + 11, held["text"], weight="bold", anchor="right")
    canvas.text(x, y + 70, "hatched: scores and weights", SOFT, size=9, anchor="left")


# --------------------------------------------------------------------------------------------------
# All positions, in the units of the page's drawing (widget.js).
# --------------------------------------------------------------------------------------------------

Box = tuple[float, float, float, float]  # left, top, width, height
_STRIP, _GAP, _HEAD, _NUMBER, _FACTOR, _BAR, _SUM = 26, 4, 18, 40, 52, 68, 42
_WIDE, _WIDER, _TALL, _MOST, _FIGURED = 256, 330, 300, 32, 12
_STEP = _STRIP + _GAP
# The names of the numbers in a row's columns. The third column is for the factor.
COLUMNS: tuple[tuple[str, ...], ...] = (("m",), ("ℓ", "D"), (), ("L",))


class Layout:
    """The positions of the tiles, strips and rows in a view."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.blocks = (view["rows"], view["columns"])
        self.n, self.m = (blocks[-1][1] for blocks in self.blocks)
        self.figured = self._fitting(_WIDE) >= _FIGURED
        self.cell = self._fitting(_WIDE if self.figured else _WIDER)
        self.left, self.top = 2 * _STRIP + _GAP + 9, 4 * _STEP + _HEAD
        self.right = self.left + self.m * self.cell + 4
        self.bar = self.right + (2 * _NUMBER + _FACTOR if self.figured else 8)
        self.end = self.bar + _BAR
        self.after = self.end + (_SUM if self.figured else 0) + 10
        self.width = self.after + 2 * _STRIP + _GAP + 2
        self.height = self.top + self.n * self.cell + 3
        right = (_NUMBER - 4, 2 * _NUMBER - 4, 2 * _NUMBER + _FACTOR - 11)
        self.ends = (*(self.right + at for at in right), self.end + _SUM - 6)

    def _fitting(self, wide: float) -> float:
        return float(min(wide / self.m, max(_TALL, wide) / self.n, _MOST))

    def block(self, name: str, start: int, stop: int) -> Box:
        """Return the bounding box of a block in a strip."""
        long = (stop - start) * self.cell - 2
        side = {"grad_q": 1, "q": 1 + _STEP, "out": self.after, "grad_out": self.after + _STEP}
        if name in side:
            return side[name], self.top + start * self.cell + 1, _STRIP, long
        above = ("grad_v", "grad_k", "v", "k").index(name) * _STEP
        return self.left + start * self.cell + 1, above + 1, long, _STRIP

    def label(self, name: str) -> tuple[float, float, str]:
        """Return the position and the alignment of a strip's label."""
        x, y, _, height = self.block(name, 0, 1)
        if name in ("q", "grad_q", "out", "grad_out"):
            return x + _STRIP / 2, self.top - 6, "center"
        return self.left - 6, y + height / 2 + 4, "right"

    def tile(self, row: int, column: int) -> Box:
        """Return the bounding box of a tile."""
        (top, bottom), (left, right) = self.blocks[0][row], self.blocks[1][column]
        x, y = self.left + left * self.cell + 1, self.top + top * self.cell + 1
        return x, y, (right - left) * self.cell - 2, (bottom - top) * self.cell - 2

    def middle(self, row: int, column: int) -> tuple[float, float]:
        """Return the center of a tile."""
        x, y, width, height = self.tile(row, column)
        return x + width / 2, y + height / 2

    def pair_middle(self, query: int, key: int) -> tuple[float, float]:
        """Return the center of the cell for a pair of a query and a key."""
        return self.left + (key + 0.5) * self.cell, self.top + (query + 0.5) * self.cell

    @property
    def hidden(self) -> list[tuple[int, int]]:
        """The masked pairs in tiles that are not skipped."""
        skipped = [self._pairs(*place) for place in self.view["skipped"]]
        out = {pair for pairs in skipped for pair in pairs}
        rows = enumerate(self.view["hidden"])
        every = ((i, j) for i, row in rows for j, one in enumerate(row) if one == "1")
        return [pair for pair in every if pair not in out]

    def _pairs(self, row: int, column: int) -> list[tuple[int, int]]:
        queries, keys = range(*self.blocks[0][row]), range(*self.blocks[1][column])
        return [(i, j) for i in queries for j in keys]

    def number_at(self, tile: list[int], i: int, j: int) -> tuple[float, float]:
        """Return the position of the number for a pair of a query and a key."""
        x, y, *_ = self.tile(*tile)
        return x - 1 + (j + 0.5) * self.cell, y + 3 + (i + 0.5) * self.cell

    def bar_box(self, query: int, begin: float, part: int) -> Box:
        """Return the bounding box of one segment, given in thousandths, of a row's bar."""
        height = min(15.0, 0.72 * self.cell)
        y = self.top + query * self.cell + (self.cell - height) / 2
        return begin, y, part * _BAR / 1000, height


# --------------------------------------------------------------------------------------------------
# Drawing in pixels on a matplotlib figure, without any pyplot state.
# --------------------------------------------------------------------------------------------------

_DEEPEST = 0.52  # the opacity of the highest level


class Canvas:
    """An Axes over the whole figure. A unit is a point, and (0, 0) is the upper left corner."""

    def __init__(self, figure: Figure, width: float, height: float) -> None:
        figure.set_facecolor("#ffffff")
        self.axes = figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(-6, width), ylim=(height, -2))
        self.axes.axis("off")

    def rectangle(
        self, box: Box, edge: str, width: float, style: Any = "-", fill: str = "none", **look: Any
    ) -> None:
        """Draw a rectangle. ``look`` contains keyword arguments for matplotlib."""
        x, y, wide, high = box
        patch = Rectangle((x, y), wide, high, edgecolor=edge, facecolor=fill, **look)
        patch.set(linewidth=width, linestyle=style)
        self.axes.add_artist(patch)

    def heat(self, box: Box, rows: Sequence[str], color: str, across: bool = False) -> None:
        """Draw rows of digits as cells. A higher digit is a darker shade of the color."""
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
        """Draw an arrow: a thin line through points, with a head at its end."""
        self.line(points, SOFT, 0.9)
        x, y = points[-1]
        self.axes.plot([x], [y], color=SOFT, marker=head, markersize=3)

    def trail(self, points: Sequence[tuple[float, float]], axis: int) -> None:
        """Draw a line through points that share a coordinate. A single point becomes a dot."""
        groups: dict[float, list[tuple[float, float]]] = {}
        for point in points:
            groups.setdefault(point[axis], []).append(point)
        for group in groups.values():
            xs, ys = zip(*group, strict=True)
            self.axes.plot(xs, ys, color=SOFT, linewidth=2, marker="o", markersize=2.4)

    def dashes(self, points: Sequence[tuple[float, float]]) -> None:
        """Mark points with small dashes."""
        xs, ys = [x for x, _ in points], [y for _, y in points]
        self.axes.plot(xs, ys, color=GRAY, linestyle="none", marker="_", markersize=3)

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
        """Write text with its baseline at the given height."""
        look: dict[str, Any] = {"color": color, "fontsize": size, "fontweight": weight}
        look["fontfamily"] = SANS
        self.axes.text(x, baseline, text, ha=anchor, va="baseline", parse_math=False, **look)
