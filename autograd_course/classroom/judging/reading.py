"""What the source of an answer has that no answer needs, found without running it.

This proves nothing and punishes nobody: it names lines for a person to look at.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

# What answers do import; of these, single parts may be remarkable all the same.
_USUAL = {
    "__future__", "abc", "array", "autograd_course", "collections", "contextlib", "copy",
    "dataclasses", "enum", "fractions", "functools", "itertools", "math", "matplotlib", "numbers",
    "numpy", "onnx", "onnxruntime", "onnxscript", "operator", "random", "re", "scipy", "sklearn",
    "statistics", "time", "torch", "torchvision", "typing", "typing_extensions", "warnings",
    "weakref",
}  # fmt: skip
_REMARKABLE: Mapping[str, str] = {
    "autograd_course.functions": "the course's own answers",
    "autograd_course.exercises": "the course's own answers",
    "autograd_course.lesson.TritonAttention": "the course's own answers",
    "autograd_course.grader": "the grader",
    "autograd_course.doctor": "the doctor",
    "autograd_doctor": "the doctor",
    "autograd_course.classroom": "the classroom",
    "tools": "the course's own tools",
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
    "torch.utils._python_dispatch": "the operations of PyTorch",
    "torch.overrides": "the functions of PyTorch",
}
_GIVEN = {"autograd_course.functions.attention.dropped"}  # as notebooks once did
_NO_NEED = "no answer needs it"
_ATTRIBUTES = {
    "_getframe", "settrace", "setprofile", "f_back", "f_globals", "tb_frame", "jvp", "make_dual",
    "__builtins__", "__code__", "__dict__", "__globals__", "__subclasses__",
}  # fmt: skip
_CALLS = {
    "breakpoint", "compile", "delattr", "eval", "exec", "globals", "open", "setattr", "vars",
    "__import__",
}  # fmt: skip
_FOREIGN = ("torch", "builtins", "autograd_course", "autograd_doctor", "numpy", "sys")
_MODULES = {"builtins", "ctypes", "gc", "importlib", "inspect", "os", "sys", "threading"}


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
    match node:
        case ast.Import() | ast.ImportFrom():
            yield from _imported(node)
        case ast.Attribute():
            yield from _reached(node, foreign)
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            yield f"calls {name}"
        case ast.Name(id=name) if name in _ATTRIBUTES:
            yield f"uses {name}"


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    before = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    for name in (before + alias.name for alias in node.names):
        if name in _GIVEN:
            continue
        # What lies at the ends of a module's name decides.
        known = [known for known in _REMARKABLE if f"{name}.".startswith(f"{known}.")]
        yield from (f"imports {each}: {_REMARKABLE[each]}" for each in known)
        top = name.partition(".")[0]
        if not known and top not in _USUAL:
            yield f"imports {top}: {_NO_NEED}"


def _reached(node: ast.Attribute, foreign: set[str]) -> Iterator[str]:
    if node.attr in _ATTRIBUTES:
        yield f"uses {node.attr}"
    name = _dotted(node)
    if name.partition(".")[0] not in foreign:
        return
    if isinstance(node.ctx, ast.Store | ast.Del):
        yield f"replaces {name}"
    elif node.attr in _MODULES:
        yield f"reaches {name}"


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


def _dotted(node: ast.expr) -> str:
    """Return what a chain of attributes of a name is in the source, ``""`` for any other.

    A loop, because ``ast.unparse`` recurses, and whoever writes the chain decides on its length.
    """
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(attributes))) if isinstance(node, ast.Name) else ""
