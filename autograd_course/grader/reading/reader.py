"""Read the cells of an answer. Find forbidden code, and code that an instructor should check."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autograd_course.grader.checks import backward_is_a_formula
from autograd_course.grader.exercise import Exercise, FunctionExercise
from autograd_course.grader.reading import reaching, storing
from autograd_course.grader.reading.meaning import Meaning, meaning
from autograd_course.grader.verdict import ForbiddenCode, Verdict
from autograd_course.notebook_files import tree_of

_LONGEST = 100  # a quoted line is at most this many characters long


@dataclass(frozen=True)
class Use:
    """A use of suspicious code: the line, what it does, and why that matters."""

    line: int
    quote: str
    what: str

    def __str__(self) -> str:
        """Return the use as a clause, such as ``it uses exec, which … (line 3: `exec(text)`)``."""
        where = f"line {self.line}: `{self.quote}`" if self.quote else f"line {self.line}"
        return f"{self.what} ({where})"


@dataclass(frozen=True)
class Reading:
    """The suspicious code in a source. An answer with ``forbidden`` code earns no points.

    ``remarks`` describe code that an instructor should check.
    """

    forbidden: tuple[Use, ...] = ()
    remarks: tuple[Use, ...] = ()

    def held_against(self, verdict: Verdict) -> Verdict:
        """Return the verdict on an answer with this source. A wrong answer stays wrong.

        Forbidden code is the reason for the verdict only if nothing else is wrong. The instructor
        always sees the forbidden code.
        """
        said = (f"{use.what} (line {use.line})" for use in (*self.forbidden, *self.remarks))
        told = replace(verdict, remarks=(*verdict.remarks, *said))
        if verdict.status == "passed" and self.forbidden:
            return replace(told, reason=ForbiddenCode(tuple(map(str, self.forbidden))), warnings=())
        return told


def read(cells: Sequence[str], exercise: Exercise) -> Reading:
    """Find code in an answer's cells that no answer to this exercise needs."""
    parsed = [(cell, tree) for cell in cells if (tree := tree_of(cell)) is not None]
    names = meaning([tree for _, tree in parsed])
    forbidden: dict[str, Use] = {}
    remarks: dict[str, Use] = {}
    for cell, tree in parsed:
        lines = cell.splitlines()
        for node, what, is_forbidden in _used(tree, names, exercise):
            number = getattr(node, "lineno", 0)
            quote = lines[number - 1].strip() if 0 < number <= len(lines) else ""
            found = forbidden if is_forbidden else remarks
            found.setdefault(what, Use(number, quote[:_LONGEST], what))
    return Reading(_by_line(forbidden), _by_line(remarks))


def _by_line(found: dict[str, Use]) -> tuple[Use, ...]:
    return tuple(sorted(found.values(), key=lambda use: use.line))


def _used(
    tree: ast.Module, names: Meaning, exercise: Exercise
) -> Iterator[tuple[ast.AST, str, bool]]:
    is_function = isinstance(exercise, FunctionExercise)
    by_formula = isinstance(exercise, FunctionExercise) and (
        backward_is_a_formula in exercise.checks
    )
    for node in ast.walk(tree):
        for what, is_forbidden in reaching.uses(node, names):
            yield node, what, is_forbidden
        if is_function:
            for what in reaching.hooks(node):
                yield node, what, True
        if by_formula:
            for what in reaching.differentiates(node, names):
                yield node, what, True
    if is_function:
        yield from storing.uses(tree, names, on_ctx=by_formula)
