"""Read the cells of an answer. Find forbidden code, and code that an instructor should check."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from autograd_doctor.extension import TimeUp, time_limit

from autograd_course.extraction.statements import NotPythonError, statements
from autograd_course.grader.checks import backward_is_a_formula
from autograd_course.grader.exercise import (
    Exercise,
    FunctionExercise,
    forbidden_by,
    measures_peak,
)
from autograd_course.grader.reading import differentiating, reaching, storing, tables
from autograd_course.grader.reading.answer_code import answer_code, without_tests
from autograd_course.grader.reading.meaning import Meaning, meaning
from autograd_course.grader.reading.skipping import Skipped, skip
from autograd_course.grader.verdict import ForbiddenCode, Verdict
from autograd_course.notebook_files import tree_of

_LONGEST = 100  # a quoted line is at most this many characters long
_SECONDS = 5.0  # an answer takes a hundredth of a second


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

    ``remarks`` describe code that an instructor should check. ``unread`` is a cell that the grader
    could not parse. It is forbidden if Python could run it nevertheless. ``skipped`` would be
    forbidden, but the answer does not need it. The classroom runs ``cells``, which do not contain
    this code.
    """

    forbidden: tuple[Use, ...] = ()
    remarks: tuple[Use, ...] = ()
    unread: tuple[Use, ...] = ()
    skipped: tuple[Use, ...] = ()
    cells: tuple[str, ...] = ()

    def held_against(self, verdict: Verdict) -> Verdict:
        """Return the verdict on an answer with this source. A wrong answer stays wrong.

        Forbidden code is the reason for the verdict only if nothing else is wrong. The instructor
        always sees the forbidden code.
        """
        passed = verdict.status == "passed"
        forbidden = (*self.forbidden, *(self.unread if passed else ()))
        said = [f"{use.what} (line {use.line})" for use in (*forbidden, *self.remarks)]
        if not passed:
            said += [f"it was graded without line {use.line}: {use.what}" for use in self.skipped]
        told = replace(verdict, remarks=(*verdict.remarks, *said))
        if passed and forbidden:
            return replace(told, reason=ForbiddenCode(tuple(map(str, forbidden))), warnings=())
        return told


def read(cells: Sequence[str], exercise: Exercise, name: str = "") -> Reading:
    """Find code in an answer's cells that no answer to this exercise needs.

    ``name`` is the name of the answer in the cells. Code that only tries the answer may use
    autograd and hooks. If the cells do not define ``name``, all code counts as part of the answer.
    """
    applies = True
    try:
        with time_limit(_SECONDS) as applies:
            return _read(tuple(cells), exercise, name)
    except (RecursionError, ValueError):  # a number may have too many digits to quote
        pass
    except TimeUp:
        if not applies:
            raise
    return Reading((_UNREADABLE,), cells=tuple(cells))


_UNREADABLE = Use(1, "", "it is too long or too deeply nested for the grader to read")


def _read(cells: tuple[str, ...], exercise: Exercise, name: str) -> Reading:
    skipped: list[Skipped] = []
    with suppress(NotPythonError):
        cells, skipped = skip(cells, name, partial(_used_anywhere, exercise))
    parsed = _parsed(cells, name)
    names = meaning([tree for _, tree, _ in parsed], is_whole=bool(name))
    forbidden: dict[str, Use] = {}
    remarks: dict[str, Use] = {}
    for cell, tree, answer in parsed:
        for node, what, is_forbidden in _used(tree, answer, names, exercise):
            found = forbidden if is_forbidden else remarks
            found.setdefault(what, _use(cell, node, what))
    unread = (_UNREADABLE,) if name and len(parsed) < len(cells) else ()
    left_out = tuple(_use(each.cell, each.statement.node, each.what) for each in skipped)
    return Reading(_by_line(forbidden), _by_line(remarks), unread, left_out, cells)


def _use(cell: str, node: ast.AST, what: str) -> Use:
    number, lines = getattr(node, "lineno", 0), cell.splitlines()
    quote = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    return Use(number, quote[:_LONGEST], what)


def _by_line(found: dict[str, Use]) -> tuple[Use, ...]:
    return tuple(sorted(found.values(), key=lambda use: use.line))


def _parsed(cells: Sequence[str], name: str) -> list[tuple[str, ast.Module, ast.Module]]:
    """Return each cell's text, its statements, and the statements that are part of the answer.

    Leave out a cell that is not valid Python.
    """
    try:
        found = [(cell, statements(cell)) for cell in cells]
    except NotPythonError:
        trees = [(cell, tree_of(cell)) for cell in cells]
        return [(cell, tree, tree) for cell, tree in trees if tree is not None]
    own = {id(each) for each in answer_code([each for _, cell in found for each in cell], name)}
    answer = without_tests(
        [ast.Module([it.node for it in parts if id(it) in own], []) for _, parts in found]
    )
    return [
        (cell, ast.Module([each.node for each in parts], []), own_part)
        for (cell, parts), own_part in zip(found, answer, strict=True)
    ]


def _used_anywhere(exercise: Exercise, node: ast.AST, names: Meaning) -> Iterator[tuple[str, bool]]:
    """Yield the uses that matter in all code, whether or not the answer needs it."""
    yield from reaching.uses(node, names)
    by_formula = backward_is_a_formula in getattr(exercise, "checks", ())
    if exercise.needs is None:
        yield from ((what, True) for what in reaching.compiles(node, names))
    if by_formula or exercise.lesson[:2] not in tables.OPERATOR_LESSONS:
        for what in (*reaching.registers(node, names), *reaching.exports(node, names)):
            yield what, True


def _used(
    tree: ast.Module, answer: ast.Module, names: Meaning, exercise: Exercise
) -> Iterator[tuple[ast.AST, str, bool]]:
    is_function = isinstance(exercise, FunctionExercise)
    checks = exercise.checks if isinstance(exercise, FunctionExercise) else ()
    by_formula = backward_is_a_formula in checks
    built_in = frozenset().union(*map(forbidden_by, checks))
    for node in reaching.nodes(tree):
        for what, is_forbidden in _used_anywhere(exercise, node, names):
            yield node, what, is_forbidden
    for node in reaching.nodes(answer) if is_function else ():
        for what in (
            *differentiating.hooks(node, names),
            *reaching.built_in(node, names, built_in),
        ):
            yield node, what, True
        if any(map(measures_peak, checks)):
            yield from ((node, what, False) for what in reaching.unmeasured(node, names))
        if by_formula:
            for what in differentiating.differentiates(node, names):
                yield node, what, True
            for what in (
                *differentiating.suspends(node),
                *differentiating.steps(node, names),
                *differentiating.layers(node, names),
            ):
                yield node, what, False
    if is_function:
        yield from storing.uses(answer, names)
