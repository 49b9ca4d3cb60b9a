"""Recognize answers that are the same program with other variable names, comments or layout.

Two programs are the same if a one-to-one renaming of their variables makes their syntax trees equal
(alpha-equivalence). This module renames a variable only if no other code can refer to it by name.
The variable must be local to a function. Its name must not be the name of anything else, must not
appear in a string, and must not tell the doctor what the variable is for.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import re
from collections.abc import Iterator

from autograd_course.extraction import Answer
from autograd_course.notebook_files import tree_of

_LONGEST = 20_000  # characters; a longer answer has no canonical form
# PyTorch passes the arguments of these methods by position, so their names are free.
_BY_POSITION = ("forward", "backward", "setup_context", "jvp", "vmap")
# With these names, code may see a docstring, a name of a variable or the number of a line.
_SHOWING = {
    "AsyncExitStack", "ExitStack", "__doc__", "__exit__", "exc_info", "inspect", "logging",
    "signature", "testing", "traceback", "warnings",
}  # fmt: skip
# The doctor moves the dim of a call if the argument has such a name.
_OF_DIMS = re.compile("dim|axis|axes")
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def canonical(answer: Answer) -> str | None:
    """Return a hash that two answers share if they are the same program for the same exercise.

    Return ``None`` if the code is too long or not valid Python, or if it may read its own names.
    """
    if sum(map(len, answer.cells)) > _LONGEST:
        return None
    try:
        cells = [_parsed(cell) for cell in answer.cells]
        numbers: dict[str, str] = {}
        for _, node in uses_of_variables(cells):
            number = numbers.setdefault(name_in(node), str(len(numbers)))
            setattr(node, "arg" if isinstance(node, ast.arg) else "id", number)
        forms = [ast.dump(cell) for cell in cells]
    except (ValueError, RecursionError, MemoryError):
        return None
    return hashlib.sha256(json.dumps([answer.exercise, answer.name, forms]).encode()).hexdigest()


def _parsed(cell: str) -> ast.Module:
    if (tree := tree_of(cell)) is None:
        raise ValueError("this is not valid Python")
    return tree


def uses_of_variables(cells: list[ast.Module]) -> Iterator[tuple[int, ast.arg | ast.Name]]:
    """Yield each use of a variable that can be renamed, and the number of its cell.

    First delete the docstrings. Raises ``ValueError`` if the code may read its own names.
    """
    names = _Names()
    for cell in cells:
        names.visit(cell)
    if names.are_read:
        raise ValueError("code reads names or docstrings")
    if "*" in names.fixed:  # any name may come from this import
        return
    text = "\n".join(names.strings)
    fixed = names.fixed.union(dir(builtins))
    # In a class, Python changes names that begin with two underscores.
    free = {
        name
        for name in names.local - fixed
        if name not in text and "__" not in name and not _OF_DIMS.search(name)
    }
    for number, cell in enumerate(cells):
        for node in ast.walk(cell):
            if isinstance(node, ast.arg | ast.Name) and name_in(node) in free:
                yield number, node


def name_in(node: ast.arg | ast.Name) -> str:
    """Return the name of a variable or an argument."""
    return node.arg if isinstance(node, ast.arg) else node.id


class _Names(ast.NodeVisitor):
    """The names of local variables, all other names, and all strings of the visited code."""

    def __init__(self) -> None:
        self.local: set[str] = set()
        self.fixed: set[str] = set()
        self.strings: list[str] = []
        self.are_read = False  # whether code may read names or docstrings
        self._scope: ast.AST | None = None  # the module, class or function around the current node

    def generic_visit(self, node: ast.AST) -> None:
        """Note the names in a node and in the nodes below it."""
        self.are_read |= not _SHOWING.isdisjoint(_names_in(node))
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                (self.local if isinstance(self._scope, _Function) else self.fixed).add(name)
            case ast.keyword(arg=None) | ast.ExceptHandler(name=str()):
                self.are_read = True
            case ast.Constant(value=str() | bytes() as value):
                text = value if isinstance(value, str) else value.decode("latin-1")
                self.strings.append(text)
                self.are_read |= "__" in text
            case _:
                self.fixed.update(_other_names(node))
        if isinstance(node, _Function):
            arguments = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
            is_method = isinstance(self._scope, ast.ClassDef) and isinstance(node, ast.FunctionDef)
            by_position = is_method and getattr(node, "name", "") in _BY_POSITION
            (self.local if by_position else self.fixed).update(arguments)
        if isinstance(node, _Documented):
            _delete_docstring(node)
        around = self._scope
        if isinstance(node, _Function | ast.Module | ast.ClassDef):
            self._scope = node
        super().generic_visit(node)
        self._scope = around


def _other_names(node: ast.AST) -> Iterator[str]:
    """Yield the names in a node that are not names of variables, arguments or attributes."""
    if not isinstance(node, ast.arg | ast.Name | ast.Attribute):
        yield from _names_in(node)


def _names_in(node: ast.AST) -> Iterator[str]:
    for _, value in ast.iter_fields(node):
        for name in value if isinstance(value, list) else [value]:
            if isinstance(name, str):
                yield from name.split(".")


def _delete_docstring(node: _Documented) -> None:
    if ast.get_docstring(node, clean=False) is not None:
        node.body[:1] = [] if len(node.body) > 1 else [ast.Pass()]
