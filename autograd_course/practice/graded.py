"""What came of one answer, as plain data: it crosses from the process that ran the answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from autograd_doctor.card import as_rich, as_text

from autograd_course.grader.result import Result
from autograd_course.grader.verdict import Status

if TYPE_CHECKING:
    from rich.text import Text

Rows = tuple[tuple[str, str], ...]
_LONGEST = 2_000  # characters of what the code printed, the last ones


@dataclass(frozen=True)
class Graded:
    """An exercise's result as a notebook shows it, and what the cell printed on the way."""

    exercise: str
    status: Status
    points: int
    possible: int
    rule: str
    headline: str
    rows: Rows
    printed: str = ""

    @property
    def passed(self) -> bool:
        """Whether the answer is right."""
        return self.status == "passed"

    @property
    def text(self) -> str:
        """The result as a notebook prints it."""
        return as_text(self.headline, self.rows)

    def rich(self, width: int) -> Text:
        """Return the same in color, for a terminal of that width."""
        return as_rich(self.headline, self.rows, kind=self.status, width=width)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data."""
        _, message = self.rows[0]
        names = ("exercise", "status", "points", "possible", "rule")
        return {name: getattr(self, name) for name in names} | {"message": message}


def graded_as(result: Result, notes: Iterable[str] = (), printed: str = "") -> Graded:
    """Return a result as data, with what is to be said of how the answer was found in its file."""
    noted = tuple(("note", note) for note in notes)
    return Graded(
        exercise=result.exercise,
        status=result.status,
        points=result.points,
        possible=result.possible,
        rule=result.finding.rule if result.finding else "",
        headline=result.headline,
        rows=(*result.rows(in_shell=True), *noted),
        printed=printed[-_LONGEST:],
    )


def without_next(graded: Graded) -> Graded:
    """Return the result without the row on hints, for where a key gives them."""
    return replace(graded, rows=tuple(row for row in graded.rows if row[0] != "next"))
