"""The parts of a notebook that grading needs: the cells and their ids, but no outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from autograd_course.errors import CourseError

Kind = Literal["code", "markdown", "raw"]


class UnreadableError(CourseError, ValueError):
    """Raised when a file cannot be read. The message is one sentence that gives the reason."""


@dataclass(frozen=True)
class Cell:
    """A notebook cell: its kind, its text, and its nbgrader ``grade_id``."""

    kind: Kind
    source: str
    grade_id: str = ""

    @property
    def is_code(self) -> bool:
        """Whether a kernel would run this cell."""
        return self.kind == "code"


@dataclass(frozen=True)
class Notebook:
    """The cells of a notebook in order, and one sentence for each problem with the file."""

    cells: tuple[Cell, ...]
    problems: tuple[str, ...] = ()


def clean(text: str) -> str:
    """Normalize line endings and replace lone surrogates, so that the text can be stored."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return plain.encode("utf-8", "replace").decode("utf-8")
