"""Prepare a Jacobian for the page, the picture and the plain text."""

import math
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from autograd_doctor import card
from autograd_doctor import jacobians as heatmap
from autograd_doctor.formatting import distinguish, number
from autograd_doctor.jacobians import Axis, Jacobians, Matrix

from autograd_course.visualize.jacobian import describe
from autograd_course.visualize.jacobian.trace import UNKNOWN, WRONG, Cells, cells_of

FEW = 6  # the plain text contains a matrix in full if it has at most this many rows and columns
LEGEND = [
    {"meaning": "negative", "color": f"rgb{heatmap.NEGATIVE}", "mark": ""},
    {"meaning": "zero", "color": "transparent", "mark": ""},
    {"meaning": "positive", "color": f"rgb{heatmap.POSITIVE}", "mark": ""},
    {"meaning": "not differentiable", "color": f"rgb{heatmap.GRAY}", "mark": UNKNOWN},
    {"meaning": "backward is wrong", "color": "", "mark": WRONG},
]


@dataclass(frozen=True)
class View:
    """A Jacobian to show. ``truth`` states how the first matrix was computed."""

    pair: Jacobians
    truth: str = heatmap.TITLES[0]

    @cached_property
    def cells(self) -> Cells:
        """The cells of the maps."""
        return cells_of(self.pair)

    @property
    def short(self) -> str:
        """The short name of the first matrix: ``finite differences`` or ``reference``."""
        return self.truth.partition(" of ")[0].partition(" by ")[0]

    @property
    def maps(self) -> tuple[tuple[str, Matrix, float], ...]:
        """The three maps. Each has a title, entries, and the magnitude for the darkest color."""
        cells = self.cells
        common = max(heatmap.largest_of(cells.differences), heatmap.largest_of(cells.backward))
        return (
            (self.truth, cells.differences, common),
            (heatmap.TITLES[1], cells.backward, common),
            (f"backward − {self.short}", cells.off, heatmap.largest_of(cells.off)),
        )

    @cached_property
    def wrong(self) -> int:
        """The number of wrong entries of the Jacobian."""
        lines = zip(self.pair.differences, self.pair.off, strict=True)
        return sum(d == d and o != 0 for line in lines for d, o in zip(*line, strict=True))

    @property
    def heading(self) -> str:
        """The heading, which names the Jacobian's output and input."""
        return heatmap.heading(self.pair)

    @cached_property
    def verdict(self) -> str:
        """A sentence about the number of wrong entries."""
        entries = len(self.pair.off) * len(self.pair.off[0])
        known = any(d == d for line in self.pair.differences for d in line)
        blind = any(UNKNOWN in marks for marks in self.cells.marks)
        return describe.verdict(self.truth, entries, self.wrong, known, blind)

    @cached_property
    def fillings(self) -> tuple[str, ...]:
        """Descriptions of the maps: the number, the size and the pattern of nonzero entries."""
        return tuple(
            map(describe.filling, (self.pair.differences, self.pair.backward, self.pair.off))
        )

    @property
    def groups(self) -> tuple[int, int]:
        """The numbers of rows and columns between two grid lines, or 0 if there are no lines."""
        return self._group(self.pair.rows), self._group(self.pair.columns)

    def _group(self, axis: Axis) -> int:
        length = (axis.shape[-1] if axis.shape else 1) * (2 if axis.pairs else 1)
        count = len(axis.places)
        useful = self.cells.whole and axis.places == tuple(range(count))
        return length if useful and 1 < length < count <= 16 * length else 0

    @property
    def scale(self) -> str:
        """An explanation if a cell shows several entries, or ``""``."""
        return "" if self.cells.whole else describe.scale(*self.cells.block)

    def entry(self, row: int, column: int) -> tuple[str, str, str]:
        """Format the three numbers in a cell: both derivatives and their difference."""
        cells = self.cells
        truth, back, off = (
            matrix[row][column] for matrix in (cells.differences, cells.backward, cells.off)
        )
        if cells.whole and cells.marks[row][column] == WRONG:
            return *distinguish(_clean(truth, self.floor), back), number(off)
        return _written(_clean(truth, self.floor)), _written(back), _written(off)

    @cached_property
    def floor(self) -> float:
        """The magnitude below which a difference counts as rounding noise."""
        return heatmap.NEGLIGIBLE * self.maps[0][2]

    def describe_cell(self, row: int, column: int) -> str:
        """Describe a cell on one line."""
        truth, back, off = self.entry(row, column)
        place = f"∂{self.cells.rows[row]} / ∂{self.cells.columns[column]}"
        word = describe.WORDS[self.cells.marks[row][column]]
        return f"{place}: {self.short} {truth}, backward {back}, difference {off}; {word}"

    def __str__(self) -> str:
        parts = zip((title for title, _, _ in self.maps), self.fillings, strict=True)
        rows = [("", f"{title}: {filling}") for title, filling in parts]
        return card.as_text(self.heading, [("", self.verdict), *rows, ("", self.scale)])


def written_out(view: View, selected: Sequence[int]) -> Iterator[str]:
    """Format all entries of small matrices, or the first wrong entries of larger ones."""
    if max(len(view.cells.rows), len(view.cells.columns)) <= FEW:
        for k, (title, _, _) in enumerate(view.maps[: 3 if view.wrong else 2]):
            yield f"  {title}"
            yield from _lines(view, k)
    else:
        wrong = list(view.cells.wrong)
        yield from (f"  {view.describe_cell(*at)}" for at in wrong[:FEW])
        if wrong[FEW:]:
            yield f"  and {len(wrong) - FEW} more"
    yield f"  selected {view.describe_cell(*selected)}"


def _lines(view: View, k: int) -> Iterator[str]:
    rows, columns = range(len(view.cells.rows)), range(len(view.cells.columns))
    written = [[view.entry(i, j)[k] for j in columns] for i in rows]
    size = max(len(text) for line in written for text in line)
    for line in written:
        yield "    " + "  ".join(text.rjust(size) for text in line)


def page(view: View) -> dict[str, Any]:
    """Return the page's content as JSON, in which each number occurs only once."""
    known: dict[str, int] = {}
    columns: tuple[list[int], list[int], list[int]] = ([], [], [])
    for i in range(len(view.cells.rows)):
        for j in range(len(view.cells.columns)):
            for place, text in zip(columns, view.entry(i, j), strict=True):
                place.append(known.setdefault(text, len(known)))
    return {
        "name": f"{view.pair.output} by {view.pair.input}",
        "heading": view.heading,
        "verdict": view.verdict,
        "wrong": view.wrong,
        "scale": view.scale,
        "how": describe.HOW if view.truth == heatmap.TITLES[0] else describe.HOW_DECLARED,
        "rows": view.cells.rows,
        "columns": view.cells.columns,
        "groups": view.groups,
        "marks": view.cells.marks,
        "start": view.cells.worst,
        "terms": [view.short, "backward", "difference"],
        "maps": [
            {"title": title, "filling": filling, "image": _image(heatmap.png(matrix, largest))}
            for (title, matrix, largest), filling in zip(view.maps, view.fillings, strict=True)
        ],
        "texts": list(known),
        "numbers": columns,
    }


def _image(png: bytes) -> str:
    return f"data:image/png;base64,{b64encode(png).decode('ascii')}"


def _clean(value: float, floor: float) -> float:
    return 0.0 if abs(value) <= floor else value


def _written(value: float) -> str:
    return "–" if math.isnan(value) else number(value)
