"""A notebook reduced to what grading needs: no outputs, no metadata but the ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from autograd_course.errors import CourseError

Kind = Literal["code", "markdown", "raw"]


class UnreadableError(CourseError, ValueError):
    """Nothing can be read from a file; the message is one sentence that says why."""


@dataclass(frozen=True)
class Cell:
    """A cell: what kind it is, its text, and the ``grade_id`` that nbgrader knows it by."""

    kind: Kind
    source: str
    grade_id: str = ""

    @property
    def is_code(self) -> bool:
        """Whether a kernel would run this cell."""
        return self.kind == "code"


@dataclass(frozen=True)
class Notebook:
    """Cells in their order, and one sentence for each thing that was wrong with the file."""

    cells: tuple[Cell, ...]
    problems: tuple[str, ...] = ()


def clean(text: str) -> str:
    """Return text that can be encoded and stored: plain line ends, no lone surrogates."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return plain.encode("utf-8", "replace").decode("utf-8")
