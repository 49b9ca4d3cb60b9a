"""The parts of a notebook that grading needs: no outputs, and no metadata except the ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from autograd_course.errors import CourseError

Kind = Literal["code", "markdown", "raw"]


class UnreadableError(CourseError, ValueError):
    """A file cannot be read; the message is one sentence that gives the reason."""


@dataclass(frozen=True)
class Cell:
    """A cell: its kind, its text, and its ``grade_id`` from nbgrader."""

    kind: Kind
    source: str
    grade_id: str = ""

    @property
    def is_code(self) -> bool:
        """Whether a kernel would run this cell."""
        return self.kind == "code"


@dataclass(frozen=True)
class Notebook:
    """A notebook's cells in order, and one sentence for each problem with the file."""

    cells: tuple[Cell, ...]
    problems: tuple[str, ...] = ()


def clean(text: str) -> str:
    """Return text that can be encoded and stored. It has plain line ends and no lone surrogates."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return plain.encode("utf-8", "replace").decode("utf-8")
