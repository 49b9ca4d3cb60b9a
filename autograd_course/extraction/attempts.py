"""Check whether a student has begun an answer. A stub only raises NotImplementedError."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from autograd_course.extraction.statements import Statement

_Routine = ast.FunctionDef | ast.AsyncFunctionDef


def is_attempted(statements: Iterable[Statement], name: str) -> bool:
    """Return whether any statement defines ``name`` with more code than the stub."""
    return any(name in s.binds and not _is_stub(s.node) for s in statements)


def _is_stub(node: ast.stmt) -> bool:
    match node:
        case ast.ClassDef():
            routines = [part for part in node.body if isinstance(part, _Routine)]
            return all(map(_is_stub, routines)) and all(map(_is_empty, _rest(node.body)))
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return all(map(_is_empty, node.body))
        case ast.Assign() | ast.AnnAssign():
            return _is_nothing(node.value)
        case ast.Import() | ast.ImportFrom():
            return True  # an imported name is not an answer
    return False


def _rest(body: list[ast.stmt]) -> list[ast.stmt]:
    return [part for part in body if not isinstance(part, _Routine)]


def _is_empty(node: ast.stmt) -> bool:
    """Return whether a statement is ``...``, ``pass``, a docstring, or the stub's ``raise``."""
    match node:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Raise(exc=ast.Name(id="NotImplementedError")):
            return True
        case ast.Raise(exc=ast.Call(func=ast.Name(id="NotImplementedError"))):
            return True
    return False


def _is_nothing(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value in (..., None, ""))
