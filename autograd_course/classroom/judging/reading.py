"""What the source of an answer has that no answer needs, found without running it.

This proves nothing and punishes nobody: it names lines for a person to look at.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

# What lies at the ends of a module's name decides: `autograd_course.functions` is there to be read.
_IMPORTS: Mapping[str, str] = {
    "autograd_course.grader": "the grader",
    "autograd_course.doctor": "the doctor",
    "autograd_course.classroom": "the classroom",
    "autograd_course.authoring": "the course's own tools",
    "solutions": "the solutions",
    "ctypes": "foreign memory",
    "gc": "all objects that there are",
    "os": "the operating system",
    "subprocess": "other programs",
    "multiprocessing": "other processes",
    "threading": "threads",
    "signal": "signals",
    "socket": "the network",
    "builtins": "Python's own functions",
    "unittest": "replaced functions",
}
_ATTRIBUTES = {"_getframe", "settrace", "setprofile", "__subclasses__", "__globals__", "__code__"}
_CALLS = {"exec", "eval", "__import__", "setattr", "delattr"}
_FOREIGN = ("torch", "builtins", "autograd_course", "numpy", "sys")


def remarks(cells: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence for each kind of thing that no answer needs, as ``imports os (line 2)``."""
    found: dict[str, int] = {}
    for tree in filter(None, map(_tree, cells)):
        foreign = set(_foreign_names(tree))
        for node in ast.walk(tree):
            for said in _said(node, foreign):
                found.setdefault(said, getattr(node, "lineno", 0))
    return tuple(f"{said} (line {line})" for said, line in found.items())


def _tree(source: str) -> ast.AST | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _said(node: ast.AST, foreign: set[str]) -> Iterator[str]:
    yield from (f"imports {name}: {_IMPORTS[name]}" for name in _imported(node))
    if isinstance(node, ast.Attribute):
        if node.attr in _ATTRIBUTES:
            yield f"uses {node.attr}"
        if isinstance(node.ctx, ast.Store | ast.Del) and _root(node) in foreign:
            yield f"replaces {ast.unparse(node)}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        yield f"calls {node.func.id}"


def _imported(node: ast.AST) -> Iterator[str]:
    names = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    for name in names:
        yield from (known for known in _IMPORTS if f"{name}.".startswith(f"{known}."))


def _foreign_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names that stand for something imported, and those of Python's own modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [(alias.name, alias) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [(node.module or "", alias) for alias in node.names]
        else:
            continue
        for module, alias in modules:
            if module.partition(".")[0] in _FOREIGN:
                yield alias.asname or alias.name.partition(".")[0]


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
