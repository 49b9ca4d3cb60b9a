"""A cell's top-level statements, and the names that each statement binds, needs and changes."""

from __future__ import annotations

import ast
import symtable
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from autograd_course.errors import CourseError

LONGEST = 100_000  # the maximum number of characters in a cell; an answer has a few thousand

# Calls to these methods run a Function, but do not change any object that an answer needs.
_SHOWS = {"apply", "backward", "show"}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class NotPythonError(CourseError, ValueError):
    """Raised when a cell cannot be parsed. The message is one sentence."""


@dataclass(frozen=True)
class Statement:
    """A statement in a cell, with its syntax tree.

    ``binds`` contains the names that the statement assigns. ``needs`` contains the names that it
    reads immediately or when its definitions are called, and ``reads`` those that it reads
    immediately. ``changes`` contains the names of the objects that it modifies, as in ``table[0] =
    1`` or ``table.append(1)``.
    """

    source: str
    node: ast.stmt
    binds: frozenset[str]
    needs: frozenset[str]
    reads: frozenset[str]
    changes: frozenset[str]

    @property
    def is_import(self) -> bool:
        """Whether the statement imports something."""
        return isinstance(self.node, ast.Import | ast.ImportFrom)

    @property
    def binds_anything(self) -> bool:
        """Whether the statement is ``from module import *``, which may bind any name."""
        return isinstance(self.node, ast.ImportFrom) and self.node.names[0].name == "*"

    @property
    def is_future(self) -> bool:
        """Whether the statement is ``from __future__ import …``."""
        return isinstance(self.node, ast.ImportFrom) and self.node.module == "__future__"


def statements(source: str) -> tuple[Statement, ...]:
    """Return the top-level statements of a cell. Raises NotPythonError if the cell is invalid."""
    if len(source) > LONGEST:
        raise NotPythonError(f"it is longer than {LONGEST:,} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the student may write "\d" in a string
            tree = ast.parse(source)
            lines = source.encode().splitlines(keepends=True)
            return tuple(_statement(node, lines) for node in tree.body)
    except SyntaxError as error:
        raise NotPythonError(f"line {error.lineno}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        # The source may contain null bytes, numbers with 10,000 digits, or a thousand nested
        # brackets.
        raise NotPythonError(f"Python cannot read it: {str(error) or 'too deep'}") from None


def _statement(node: ast.stmt, lines: list[bytes]) -> Statement:
    source = _segment(node, lines)
    table = symtable.symtable(source, "cell", "exec")
    needed = frozenset(_needed(table))
    return Statement(
        source,
        node,
        frozenset(s.get_name() for s in table.get_symbols() if s.is_assigned() or s.is_imported()),
        needed,
        needed.intersection(_read(node)),
        frozenset(_changed(node)),
    )


def first_line(node: ast.stmt) -> int:
    """Return the line number where a statement begins. Decorators are part of the statement."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def _segment(node: ast.stmt, lines: list[bytes]) -> str:
    begin, end = first_line(node), node.end_lineno or node.lineno
    taken = lines[begin - 1 : end]
    taken[-1] = taken[-1][: node.end_col_offset]
    taken[0] = taken[0][node.col_offset if begin == node.lineno else 0 :]
    return b"".join(taken).decode()


def _needed(top: symtable.SymbolTable) -> Iterator[str]:
    yield from (s.get_name() for s in top.get_symbols() if s.is_referenced())
    inner = list(top.get_children())
    while inner:
        table = inner.pop()
        inner += table.get_children()
        yield from (s.get_name() for s in table.get_symbols() if s.is_global())


def _read(node: ast.stmt) -> Iterator[str]:
    """Yield the names outside the bodies of functions."""
    waiting: list[ast.AST] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Name):
            yield part.id
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += [*part.decorator_list, part.args, *filter(None, [part.returns])]
        elif isinstance(part, ast.Lambda):
            waiting.append(part.args)
        else:
            waiting += ast.iter_child_nodes(part)


def _changed(node: ast.stmt) -> Iterator[str]:
    """Yield the names of the objects that a statement modifies when it runs.

    Ignore code inside functions and classes. A decorator such as ``@show.register`` changes
    ``show``.
    """
    for decorator in getattr(node, "decorator_list", ()):
        maker = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(maker, ast.Attribute):
            yield from _root(maker)
    waiting: list[ast.AST] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, _SCOPES):
            continue
        waiting += ast.iter_child_nodes(part)
        if isinstance(part, ast.Attribute | ast.Subscript) and not isinstance(part.ctx, ast.Load):
            yield from _root(part)
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Call):
            called = part.value.func
            if isinstance(called, ast.Attribute) and called.attr not in _SHOWS:
                yield from _root(called)


def _root(node: ast.expr) -> Iterator[str]:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id
