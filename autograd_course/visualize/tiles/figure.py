"""The static picture: the stage at one step, the order of the tiles, and the memory."""

from itertools import groupby
from typing import Any

from matplotlib.figure import Figure

from autograd_course.visualize.kit.figure import small_png
from autograd_course.visualize.tiles.canvas import BACK, GRID, INK, RIM, SOFT, VALUE, Canvas
from autograd_course.visualize.tiles.stage import COLUMNS, Stage
from autograd_course.visualize.tiles.story import Story, at

_MAP, _GAP, _ASIDE = 108, 38, 272  # an order map's side, the room beside it, the right column
_NUMBERED = 12  # pixels of a tile in an order map from which on it has a number
_PIXELS, _SHARP = 72, 130
Point = tuple[float, float]
_NAMES = (("grad_q", "∂Q"), ("q", "Q"), ("out", "O"), ("grad_out", "∂O"))
_ABOVE = (("grad_v", "∂Vᵀ"), ("grad_k", "∂Kᵀ"), ("v", "Vᵀ"), ("k", "Kᵀ"))


def drawn(told: Story, step: int) -> bytes:
    """Draw a story's stage as it is after a step; the same bytes for the same story and step."""
    stage, now = Stage(told), at(told, step)
    width, height = stage.width + 24 + _ASIDE, max(stage.height, 300.0) + 8
    figure = Figure(figsize=(width / _PIXELS, height / _PIXELS), dpi=_SHARP)
    canvas = Canvas(figure, width, height)
    back = now["phase"] in ("backward", "end")
    _strips(canvas, stage, now, back)
    _tiles(canvas, stage, now, back)
    _rows(canvas, stage, now, back)
    for place, phase in enumerate(("forward", "backward")):
        _order(canvas, told, phase, stage.width + 24 + place * (_MAP + _GAP), now)
    _memory(canvas, told, now, stage.width + 24, "backward" if back else "forward")
    return small_png(figure)


def _strips(canvas: Canvas, stage: Stage, now: dict[str, Any], back: bool) -> None:
    given, tile = stage.told["given"], now["tile"]
    for lines, axis in ((_NAMES, 0), (_ABOVE, 1)):
        for name, label in lines:
            gradient = name.startswith("grad")
            for index, (start, stop) in enumerate(stage.blocks[axis]):
                values = now["filled"].get(f"{name} {index}")
                if name in given and (back or not gradient):
                    values = given[name][start:stop]
                box = stage.block(name, start, stop)
                color = BACK if gradient else VALUE
                if values:
                    canvas.heat(box, values, color, across=axis == 1)
                used = back != (name == "out") if gradient or name == "out" else True
                held = used and tile is not None and tile[axis] == index
                style = "--" if gradient else "-"
                canvas.rectangle(box, color if held else RIM, 2.4 if held else 0.9, style)
            x, y, anchor = stage.label(name)
            canvas.text(x, y, label, anchor=anchor)


def _tiles(canvas: Canvas, stage: Stage, now: dict[str, Any], back: bool) -> None:
    done = now["trail"][:-1] if now["tile"] else now["trail"]
    skipped = stage.told["skipped"]
    for i, _ in enumerate(stage.blocks[0]):
        for j, _ in enumerate(stage.blocks[1]):
            hatch = "////" if [i, j] in skipped else None
            fill = GRID if [i, j] in done else "#ffffff" if hatch else "#f5f6f8"
            canvas.rectangle(stage.tile(i, j), RIM, 0.8, fill=fill, hatch=hatch)
    if now["tile"]:
        box, color = stage.tile(*now["tile"]), BACK if back else VALUE
        canvas.heat(box, now["cells"]["heat"], VALUE)
        canvas.rectangle(box, color, 2.8, "--" if back else "-")
        for i, row in enumerate(now["cells"].get("texts", ())):
            for j, text in enumerate(row):
                canvas.text(*stage.number_at(now["tile"], i, j), text, size=9.0, anchor="center")
    canvas.dashes([stage.pair_middle(i, j) for i, j in stage.hidden])
    canvas.trail([stage.middle(*place) for place in done], 1 if not back else 0)


def _rows(canvas: Canvas, stage: Stage, now: dict[str, Any], back: bool) -> None:
    bar = "Σ P, to 1" if back else f"ℓ, to {stage.told['longest']}"
    canvas.text(stage.bar, stage.top - 6, bar, anchor="left")
    for head, x in zip(
        ("", "D", "", "L") if back else ("m", "ℓ", "×r", "L"), stage.ends, strict=True
    ):
        if stage.figured:
            canvas.text(x, stage.top - 6, head, anchor="right")
    for start, _ in stage.told["rows"]:
        y = stage.top + start * stage.cell
        canvas.line([(stage.right + 6, y), (max(stage.end, stage.after - 16), y)], GRID, 0.8)
    current = range(*stage.told["rows"][now["tile"][0]]) if now["tile"] else range(0)
    for query in range(stage.n):
        figures = now["figures"].get(str(query), stage.told["begin"])
        _row(canvas, stage, query, figures, query in current)
    canvas.line([(stage.end, stage.top), (stage.end, stage.height - 3)], RIM, 1, (0, (2, 3)))


def _row(canvas: Canvas, stage: Stage, query: int, row: dict[str, Any], now: bool) -> None:
    weight = "bold" if now else "normal"
    y = stage.top + (query + 0.5) * stage.cell
    if stage.figured:
        for names, x in zip(COLUMNS, stage.ends, strict=True):
            text = next((row["texts"][name] for name in names if name in row["texts"]), "")
            canvas.text(x, y + 4, text, weight=weight, anchor="right")
        if now and row["factor"]:
            canvas.text(stage.ends[2], y + 4, row["factor"], weight="bold", anchor="right")
    begin = stage.bar
    for place, part in enumerate(row["parts"]):
        newest = now and place == len(row["parts"]) - 1
        box = stage.bar_box(query, begin, part)
        canvas.rectangle(box, "#ffffff", 0.8, fill=VALUE, alpha=1.0 if newest else 0.35)
        begin += box[2]
    if now and row["ghost"]:
        canvas.rectangle(stage.bar_box(query, stage.bar, row["ghost"]), INK, 1.2, "--")


def _order(canvas: Canvas, told: Story, phase: str, x: float, now: dict[str, Any]) -> None:
    tiles = [f["tile"] for f in told["frames"] if f["phase"] == phase and f["tile"]]
    rows, columns = len(told["rows"]), len(told["columns"])
    side, top = _MAP / max(rows, columns), 30.0
    corners = {(i, j): (x + j * side, top + i * side) for i in range(rows) for j in range(columns)}
    for (i, j), (left, high) in corners.items():
        box = (left + 0.5, high + 0.5, side - 1, side - 1)
        hatch = "////" if [i, j] in told["skipped"] else None
        rim = RIM if side >= _NUMBERED else GRID
        canvas.rectangle(box, rim, 0.6, fill="#ffffff" if hatch else "#f5f6f8", hatch=hatch)
    order = [corners[i, j] for i, j in tiles]
    if side >= _NUMBERED:
        _numbers(canvas, order, side)
    else:
        _ways(canvas, order, side, phase)
    if now["phase"] == phase and now["tile"]:
        color = VALUE if phase == "forward" else BACK
        canvas.rectangle((*corners[tuple(now["tile"])], side, side), color, 2.0)
    arrow = "→" if phase == "forward" else "↓"
    canvas.text(x, 20, f"{phase} {arrow}", weight="bold", anchor="left")


def _numbers(canvas: Canvas, corners: list[Point], side: float) -> None:
    """Number the tiles in their order."""
    size = min(9.0, 0.42 * side)
    for number, (x, y) in enumerate(corners, 1):
        canvas.text(x + side / 2, y + side / 2 + 0.36 * size, str(number), size=size)


def _ways(canvas: Canvas, corners: list[Point], side: float, phase: str) -> None:
    """Lead through each row in forward, each column in backward: tiles too small for numbers."""
    middles = [(x + side / 2, y + side / 2) for x, y in corners]
    along, head = (1, ">") if phase == "forward" else (0, "v")
    for _, way in groupby(middles, key=lambda point: point[along]):
        canvas.arrow(list(way), head)


def _memory(canvas: Canvas, told: Story, now: dict[str, Any], x: float, phase: str) -> None:
    y, full = 30.0 + _MAP + 34, _ASIDE - 136.0
    canvas.text(x, y, "alive at once", weight="bold", anchor="left")
    none = {"text": "nothing", "square": 0, "all": 0}
    turns = (("this turn", now["held"] or none), ("as one tile", told["whole"][phase]))
    for place, (label, held) in enumerate(turns):
        top = y + 10 + 22 * place
        canvas.text(x, top + 11, label, anchor="left")
        square, rest = full * held["square"], full * (held["all"] - held["square"])
        box = (x + 66, top, square, 14)
        canvas.rectangle(box, INK, 0.8, fill="#ffffff", hatch="/////")
        canvas.rectangle((x + 66 + square, top, rest, 14), RIM, 0.8, fill=RIM)
        canvas.text(x + _ASIDE - 6, top + 11, held["text"], weight="bold", anchor="right")
    canvas.text(x, y + 70, "hatched: scores and weights", SOFT, size=9, anchor="left")
