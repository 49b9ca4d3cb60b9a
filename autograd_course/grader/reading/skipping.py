"""Leave out code that only tries an answer, if the answer must not contain such code.

A student may import ``os`` or call ``timeit`` to try an answer in its own cell. The answer does not
need these statements, so the classroom runs the cell without them. The same is true of code that
attacks the grader.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from autograd_course.extraction.statements import Statement, first_line, statements
from autograd_course.grader.reading import reaching
from autograd_course.grader.reading.answer_code import answer_code
from autograd_course.grader.reading.meaning import Meaning, meaning


@dataclass(frozen=True)
class Skipped:
    """A statement that does not run: its cell, and what it must not do."""

    cell: str
    statement: Statement
    what: str


def skip(cells: Sequence[str], name: str) -> tuple[tuple[str, ...], list[Skipped]]:
    """Return the cells without the code that the answer must not contain and does not need.

    Each line keeps its number. Raises NotPythonError if a cell is invalid.
    """
    parsed = [statements(cell) for cell in cells]
    every = [each for parts in parsed for each in parts]
    own = {id(each) for each in answer_code(every, name)}
    others = [each for each in every if id(each) not in own]
    names = meaning([ast.Module([each.node for each in every], [])], is_whole=bool(name))
    reasons = {id(each): what for each in others if (what := _forbidden(each, names))}
    while more := _broken(every, others, reasons):
        reasons |= more
    trimmed = tuple(
        _without(cell, [each.node for each in parts if id(each) in reasons])
        for cell, parts in zip(cells, parsed, strict=True)
    )
    return trimmed, [
        Skipped(cell, each, reasons[id(each)])
        for cell, parts in zip(cells, parsed, strict=True)
        for each in parts
        if id(each) in reasons
    ]


def _forbidden(statement: Statement, names: Meaning) -> str:
    """Return what a statement does that no answer may do, or ``""``."""
    for node in reaching.nodes(statement.node):
        for what, is_forbidden in reaching.uses(node, names):
            if is_forbidden:
                return what
    return ""


def _broken(
    every: Sequence[Statement], others: Sequence[Statement], reasons: Collection[int]
) -> dict[int, str]:
    """Return the statements that need a name that only skipped statements define."""
    missing = {name for each in every if id(each) in reasons for name in each.binds}
    missing -= {name for each in every if id(each) not in reasons for name in each.binds}
    return {
        id(each): f"it needs {min(each.needs & missing)}"
        for each in others
        if id(each) not in reasons and each.needs & missing
    }


def _without(cell: str, skipped: Sequence[ast.stmt]) -> str:
    """Replace statements by ``pass``, and keep the numbers of all lines."""
    lines = cell.encode().splitlines(keepends=True)
    for node in skipped:
        begin, end = first_line(node) - 1, (node.end_lineno or node.lineno) - 1
        column = node.col_offset if begin == node.lineno - 1 else 0
        before, after = lines[begin][:column], lines[end][node.end_col_offset :]
        for number in range(begin, end + 1):
            lines[number] = b"\n" if number < end else after
        lines[begin] = before + b"pass" + (b"\n" if begin < end else after)
    return b"".join(lines).decode()
