"""Parse a notebook's code cells without running them, and find the exercise of each cell."""

from __future__ import annotations

import ast
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from autograd_course.extraction.cleaning import python_of
from autograd_course.extraction.statements import (
    NotPythonError,
    Statement,
    statements,
)
from autograd_course.index import INDEX, named
from autograd_course.notebook_files import Notebook

GRADER_SUFFIX = "-grade"
# Jupyter reads a cell again for each magic. It may read this many characters of one cell. It reads
# no other cell after it has read this many characters of the notebook.
_MOST_WORK = 500_000
_KEPT = 4000  # cache only cells up to this many characters: a tree takes 100 times as much memory


@dataclass(frozen=True)
class Block:
    """A code cell: its exercise (from ``grade_id``), its Python code, and any syntax error.

    ``misnamed`` explains why the id does not name an exercise.
    """

    exercise: str
    source: str
    statements: tuple[Statement, ...] = ()
    error: str = ""
    misnamed: str = ""
    work: int = 0  # how many characters Jupyter read to find magics

    @cached_property
    def binds(self) -> frozenset[str]:
        """The names that the cell assigns."""
        return frozenset().union(*(s.binds for s in self.statements))


@dataclass(frozen=True)
class Program:
    """A notebook's code cells except grader cells, and the names passed to ``grade``.

    ``graded`` maps each exercise to the number of cells above its ``grade`` call, and to the name
    passed to this call. ``problems`` lists the problems with invalid ids.
    """

    blocks: tuple[Block, ...]
    graded: dict[str, tuple[int, str]]
    prose: frozenset[str]
    problems: tuple[str, ...]


@lru_cache(maxsize=4)  # called to find the lesson, the attempts and the answers
def program(notebook: Notebook) -> Program:
    """Parse a notebook's code cells."""
    blocks: list[Block] = []
    graded: dict[str, tuple[int, str]] = {}
    prose: set[str] = set()
    problems: list[str] = []
    left = _MOST_WORK
    for cell in notebook.cells:
        exercise, is_grader, problem = _meant(cell.grade_id)
        problems += problem
        if not cell.is_code:
            prose |= {exercise} - {""}
            continue
        misnamed = "" if exercise else "".join(problem)
        read = _known if len(cell.source) <= _KEPT else _block
        most = _MOST_WORK if left > 0 else 0
        block = read("" if is_grader else exercise, cell.source, misnamed, most)
        left -= block.work
        for exercise_id, name in _graded(block):
            graded[exercise_id] = (len(blocks), name)
        if not is_grader:
            blocks.append(block)
    return Program(tuple(blocks), graded, frozenset(prose), tuple(problems))


def _block(exercise: str, source: str, misnamed: str, most: int) -> Block:
    python, work = python_of(source, most)
    try:
        return Block(exercise, python, statements(python), misnamed=misnamed, work=work)
    except NotPythonError as error:
        return Block(exercise, python, error=str(error), misnamed=misnamed, work=work)


# Most cells in a class's notebooks are identical to those in the lesson, so a cache saves time.
_known = lru_cache(maxsize=512)(_block)


def _meant(grade_id: str) -> tuple[str, bool, list[str]]:
    """Return the exercise that an id names, whether the cell grades it, and any problem."""
    answer_id = grade_id.removesuffix(GRADER_SUFFIX)
    if not answer_id:
        return "", False, []
    exercise = answer_id if answer_id in INDEX else named(answer_id, INDEX)
    if not exercise:
        return "", False, [f"there is no exercise {grade_id[:60]!r}{odd_letter(grade_id)}"]
    said = [] if exercise == answer_id else [f"{grade_id!r} is taken for {exercise!r}"]
    return exercise, grade_id != answer_id, said


def odd_letter(text: str) -> str:
    """Return the end of a sentence that names the first non-ASCII letter, or an empty string."""
    odd = next((letter for letter in text if not letter.isascii()), "")
    return f": it has a {unicodedata.name(odd, 'character of no name').lower()}" if odd else ""


def _graded(block: Block) -> Iterator[tuple[str, str]]:
    """Yield the arguments of each ``grade("id", Name)`` call in a cell."""
    for statement in block.statements:
        match statement.node:
            case ast.Expr(
                value=ast.Call(
                    func=ast.Name(id="grade"),
                    args=[ast.Constant(value=str(exercise)), ast.Name(id=name)],
                )
            ) if exercise in INDEX:
                yield exercise, name
