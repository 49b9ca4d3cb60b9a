"""Leave out code that only tries an answer, if the answer must not contain such code.

A student may import ``os`` or call ``timeit`` to try an answer in its own cell. The answer does not
need these statements, so the classroom runs the cell without them. The same is true of code that
attacks the grader.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from autograd_course.extraction.statements import NotPythonError, Statement, statements
from autograd_course.grader.reading import reaching
from autograd_course.grader.reading.answer_code import answer_code
from autograd_course.grader.reading.meaning import Meaning, meaning


@dataclass(frozen=True)
class Skipped:
    """A statement that does not run: its cell, and what it must not do."""

    cell: str
    statement: Statement
    what: str


_Uses = Callable[[ast.AST, Meaning], Iterator[tuple[str, bool]]]


def skip(cells: Sequence[str], name: str, uses: _Uses) -> tuple[tuple[str, ...], list[Skipped]]:
    """Return the cells without the code that the answer must not contain and does not need.

    ``uses`` yields what a syntax node does, and whether this is forbidden. Each line keeps its
    number. Raises NotPythonError if a cell is invalid.
    """
    cells = tuple(_one_import_each(cell, uses) for cell in cells)
    parsed = [statements(cell) for cell in cells]
    every = [each for parts in parsed for each in parts]
    own = {id(each) for each in answer_code(every, name)}
    others = [each for each in every if id(each) not in own]
    if not others:
        return cells, []
    names = meaning([ast.Module([each.node for each in every], [])], is_whole=bool(name))
    reasons = {id(each): what for each in others if (what := _forbidden(each, names, uses))}
    reasons |= _broken(every, set(map(id, others)), reasons)
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


def _one_import_each(cell: str, uses: _Uses) -> str:
    """Split ``import a, b`` into ``import a; import b`` if an answer must not import all of them.

    The answer may need only one of the modules.
    """
    code, starts = _lines(cell)
    for each in reversed(statements(cell)):
        if isinstance(each.node, ast.Import) and _forbidden(each, Meaning(), uses):
            for before, alias in reversed([*pairwise(each.node.names)]):
                begin, end = _end(before, starts), starts[alias.lineno - 1] + alias.col_offset
                comma = code.index(b",", begin, end)
                code = code[:comma] + b"; import" + code[comma + 1 :]
    return code.decode()


def keep_answer(cells: Sequence[str], name: str) -> tuple[str, ...]:
    """Return the cells without the code that the answer does not need. A line keeps its number."""
    try:
        parsed = [statements(cell) for cell in cells]
    except NotPythonError:
        return tuple(cells)
    own = {id(each) for each in answer_code([each for parts in parsed for each in parts], name)}
    return tuple(
        _without(cell, [
            each.node for each in parts
            if not (id(each) in own or _stays(each))
        ])
        for cell, parts in zip(cells, parsed, strict=True)
    )  # fmt: skip


def _stays(statement: Statement) -> bool:
    """Return whether other code may depend on a statement, or on its place as a docstring."""
    is_text = isinstance(statement.node, ast.Expr) and isinstance(
        statement.node.value, ast.Constant
    )
    return statement.is_future or statement.binds_anything or is_text


def _forbidden(statement: Statement, names: Meaning, uses: _Uses) -> str:
    """Return what a statement does that no answer may do, or ``""``."""
    for node in reaching.nodes(statement.node):
        for what, is_forbidden in uses(node, names):
            if is_forbidden:
                return what
    return ""


def _broken(
    every: Sequence[Statement], others: Collection[int], reasons: Collection[int]
) -> dict[int, str]:
    """Return the statements that need a name that a skipped statement should have defined."""
    broken: dict[int, str] = {}
    missing: set[str] = set()
    for each in every:
        needs = each.needs | (each.binds if isinstance(each.node, ast.Delete) else set())
        if id(each) in others and id(each) not in reasons and needs & missing:
            broken[id(each)] = f"it needs {min(needs & missing)}"
        if id(each) in reasons or id(each) in broken:
            missing |= each.binds
        else:
            missing -= each.binds
    return broken


def _without(cell: str, skipped: Sequence[ast.stmt]) -> str:
    """Replace each statement by an empty tuple with as many lines."""
    code, starts = _lines(cell)
    for node in reversed(skipped):
        begin = starts[node.lineno - 1] + node.col_offset
        for decorator in getattr(node, "decorator_list", []):
            place = starts[decorator.lineno - 1] + decorator.col_offset
            begin = min(begin, code.rindex(b"@", 0, place))
        end = _end(node, starts)
        lines = code[begin:end].count(b"\n")
        code = code[:begin] + b"(" + lines * b"\n" + b")" + code[end:]
    return code.decode()


def _lines(cell: str) -> tuple[bytes, list[int]]:
    """Return the code as bytes, and the position at which each line begins."""
    code = cell.encode()
    return code, [0, *accumulate(len(line) for line in code.splitlines(keepends=True))]


def _end(node: ast.stmt | ast.alias, starts: Sequence[int]) -> int:
    """Return the position at which a syntax node ends."""
    return starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
