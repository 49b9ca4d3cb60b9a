"""A Jacobian in words and numbers: what the page, the picture and the plain text say."""

import math
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from autograd_doctor import Diagnosis, card
from autograd_doctor import jacobians as heatmap
from autograd_doctor.formatting import distinguish, number, sentence
from autograd_doctor.jacobians import Axis, Jacobians, Matrix

from autograd_course.visualize.jacobian.describe import looks
from autograd_course.visualize.jacobian.trace import AGREES, UNKNOWN, WRONG, Shown, shown

FEW = 6  # rows and columns of a matrix that the plain text writes out
WORDS = {
    AGREES: "they agree",
    WRONG: "✗ backward is wrong here",
    UNKNOWN: "finite differences find no derivative here",
}


HOW = (
    "Finite differences are found a column at a time: one input element is nudged. Backward is "
    "found a row at a time: one call, with a grad_output that is 1 at one output element and 0 "
    "elsewhere."
)
HOW_DECLARED = (
    "Both are found a row at a time: one call of a backward, with a grad_output that is 1 at one "
    "output element and 0 elsewhere; the reference's is autograd's own."
)


def _css(color: tuple[int, ...]) -> str:
    return f"rgb{color}"


LEGEND = [
    {"meaning": "negative", "color": _css(heatmap.NEGATIVE), "mark": ""},
    {"meaning": "zero", "color": "transparent", "mark": ""},
    {"meaning": "positive", "color": _css(heatmap.POSITIVE), "mark": ""},
    {"meaning": "not differentiable", "color": _css(heatmap.GRAY), "mark": UNKNOWN},
    {"meaning": "backward is wrong", "color": "", "mark": WRONG},
]


def named(diagnosis: Diagnosis | None) -> str:
    """Return the first finding of a diagnosis, its rule and its sentence, ``""`` without one."""
    if diagnosis is None or not diagnosis.findings:
        return ""
    first = diagnosis.findings[0]
    severity = "" if first.severity == "error" else f"{first.severity}, "
    return f"{severity}{first.rule}: {sentence(first.message)}"


@dataclass(frozen=True)
class View:
    """One Jacobian, ready to be shown; ``truth`` says where the first matrix comes from."""

    pair: Jacobians
    truth: str = heatmap.TITLES[0]

    @cached_property
    def shown(self) -> Shown:
        """What stands in the cells."""
        return shown(self.pair)

    @property
    def short(self) -> str:
        """The first matrix in a word or two: ``finite differences``, ``reference``."""
        return self.truth.partition(" of ")[0].partition(" by ")[0]

    @property
    def maps(self) -> tuple[tuple[str, Matrix, float], ...]:
        """The three maps: title, entries, and the size that gets the darkest shade."""
        cells = self.shown
        common = max(heatmap.largest_of(cells.differences), heatmap.largest_of(cells.backward))
        return (
            (self.truth, cells.differences, common),
            (heatmap.TITLES[1], cells.backward, common),
            (f"backward − {self.short}", cells.off, heatmap.largest_of(cells.off)),
        )

    @cached_property
    def wrong(self) -> int:
        """How many entries of the Jacobian are wrong."""
        lines = zip(self.pair.differences, self.pair.off, strict=True)
        return sum(d == d and o != 0 for line in lines for d, o in zip(*line, strict=True))

    @property
    def heading(self) -> str:
        """Which Jacobian this is."""
        return heatmap.heading(self.pair)

    @cached_property
    def verdict(self) -> str:
        """How many entries are wrong, in a sentence."""
        entries = len(self.pair.off) * len(self.pair.off[0])
        blind = sum("?" in marks for line in self.shown.marks for marks in line)
        if not any(d == d for line in self.pair.differences for d in line):
            return "There is nothing to compare: no derivative is found anywhere."
        unjudged = " where finite differences find a derivative" if blind else ""
        if not self.wrong:
            each = f"all {entries} entries" if entries > 1 else "its one entry"
            return f"✓ Backward agrees with {self.truth} in {each}{unjudged}."
        return f"✗ {self.wrong} of {entries} entries of backward are wrong."

    @cached_property
    def fillings(self) -> tuple[str, ...]:
        """What fills each map: how many entries, how large, and in what pattern."""
        matrices = (self.pair.differences, self.pair.backward, self.pair.off)
        told = []
        for matrix in matrices:
            pattern = looks(torch.tensor(matrix, dtype=torch.float64))
            said = heatmap.filling(matrix)
            plain = pattern in ("", "zero", "sparse", "diagonal") and "diagonal" in said
            hidden = plain or pattern in ("", "zero", "sparse")
            told.append(said if hidden else f"{said}; looks {pattern}")
        return tuple(told)

    @property
    def groups(self) -> tuple[int, int]:
        """After how many rows and columns a row of the tensor ends, 0 where no line helps."""
        return self._group(self.pair.rows), self._group(self.pair.columns)

    def _group(self, axis: Axis) -> int:
        length = (axis.shape[-1] if axis.shape else 1) * (2 if axis.pairs else 1)
        count = len(axis.places)
        useful = self.shown.whole and axis.places == tuple(range(count))
        return length if useful and 1 < length < count <= 16 * length else 0

    @property
    def scale(self) -> str:
        """What a cell is where it is no single entry, ``""`` where it is one."""
        high, wide = self.shown.block
        return (
            ""
            if self.shown.whole
            else f"Each cell stands for {high} × {wide} entries and shows the largest; "
            "it is wrong where one of them is."
        )

    def entry(self, row: int, column: int) -> tuple[str, str, str]:
        """Write the three numbers of a cell."""
        cells = self.shown
        truth, back, off = (
            matrix[row][column] for matrix in (cells.differences, cells.backward, cells.off)
        )
        if cells.whole and cells.marks[row][column] == WRONG:
            return *distinguish(_clean(truth, self.floor), back), number(off)
        return _written(_clean(truth, self.floor)), _written(back), _written(off)

    @cached_property
    def floor(self) -> float:
        """Below this a difference is noise of rounding."""
        return heatmap.NEGLIGIBLE * self.maps[0][2]

    def told(self, row: int, column: int) -> str:
        """Say everything of one cell in a line."""
        truth, back, off = self.entry(row, column)
        place = f"∂{self.shown.rows[row]} / ∂{self.shown.columns[column]}"
        word = WORDS[self.shown.marks[row][column]]
        return f"{place}: {self.short} {truth}, backward {back}, difference {off}; {word}"

    def __str__(self) -> str:
        parts = zip((title for title, _, _ in self.maps), self.fillings, strict=True)
        rows = [("", f"{title}: {told}") for title, told in parts]
        return card.as_text(self.heading, [("", self.verdict), *rows, ("", self.scale)])


def written_out(view: View, selected: Sequence[int]) -> Iterator[str]:
    """Write small matrices out in numbers, of larger ones the first wrong entries."""
    if max(len(view.shown.rows), len(view.shown.columns)) <= FEW:
        for k, (title, _, _) in enumerate(view.maps[: 3 if view.wrong else 2]):
            yield f"  {title}"
            yield from _lines(view, k)
    else:
        wrong = list(view.shown.wrong)
        yield from (f"  {view.told(*at)}" for at in wrong[:FEW])
        if wrong[FEW:]:
            yield f"  and {len(wrong) - FEW} more"
    yield f"  selected {view.told(*selected)}"


def _lines(view: View, k: int) -> Iterator[str]:
    rows, columns = range(len(view.shown.rows)), range(len(view.shown.columns))
    written = [[view.entry(i, j)[k] for j in columns] for i in rows]
    size = max(len(text) for line in written for text in line)
    for line in written:
        yield "    " + "  ".join(text.rjust(size) for text in line)


def page(view: View) -> dict[str, Any]:
    """Return what the page shows, as JSON; numbers are written here, and each once."""
    known: dict[str, int] = {}
    columns: tuple[list[int], list[int], list[int]] = ([], [], [])
    for i in range(len(view.shown.rows)):
        for j in range(len(view.shown.columns)):
            for place, text in zip(columns, view.entry(i, j), strict=True):
                place.append(known.setdefault(text, len(known)))
    return {
        "name": f"{view.pair.output} by {view.pair.input}",
        "heading": view.heading,
        "verdict": view.verdict,
        "wrong": view.wrong,
        "scale": view.scale,
        "how": HOW if view.truth == heatmap.TITLES[0] else HOW_DECLARED,
        "rows": view.shown.rows,
        "columns": view.shown.columns,
        "groups": view.groups,
        "marks": view.shown.marks,
        "start": view.shown.worst,
        "terms": [view.short, "backward", "difference"],
        "maps": [_map(*each) for each in zip(view.maps, view.fillings, strict=True)],
        "texts": list(known),
        "numbers": columns,
    }


def _map(drawn: tuple[str, Matrix, float], filling: str) -> dict[str, str]:
    title, matrix, largest = drawn
    picture = b64encode(heatmap.png(matrix, largest)).decode("ascii")
    return {"title": title, "filling": filling, "image": f"data:image/png;base64,{picture}"}


def _clean(value: float, floor: float) -> float:
    return 0.0 if abs(value) <= floor else value


def _written(value: float) -> str:
    return "–" if math.isnan(value) else number(value)
