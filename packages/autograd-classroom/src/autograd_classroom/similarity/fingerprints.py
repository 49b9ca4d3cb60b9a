"""The fingerprints of code. They ignore names, layout, comments and the given skeleton.

The syntax tree of each function's body is read in order as a sequence of node kinds. All names that
the student chose count as equal, but called names and constants are kept. Of every few neighboring
pieces, the one with the smallest hash is kept. Code that is moved or surrounded by other code
therefore keeps its fingerprints (Schleimer, Wilkerson and Aiken, "Winnowing", 2003).
"""

from __future__ import annotations

import ast
import zlib
from collections.abc import Iterator

_GRAM = 7  # number of nodes in a fingerprint
_WINDOW = 4  # number of neighboring pieces of which one is kept
_MOST = 20_000  # maximum number of nodes in one answer
_STRUCTURE = ast.expr_context | ast.arguments | ast.arg | ast.Pass
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def fingerprints(source: str) -> frozenset[int]:
    """Return the code's fingerprints. If it is only the stub or not Python, there are none."""
    try:
        tree = ast.parse(source)
        found: set[int] = set()
        for body in _bodies(tree):
            found.update(_winnowed([word for node in body for word in _words(node)][:_MOST]))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(found)


def _bodies(tree: ast.Module | _Scope) -> Iterator[list[ast.stmt]]:
    """Yield the statements of each function and class, without nested functions and classes."""
    yield [node for node in tree.body if _own(node)]
    for node in tree.body:
        if isinstance(node, _Scope):
            yield from _bodies(node)


def _own(node: ast.stmt) -> bool:
    """Whether the student wrote a statement. Imports, docstrings, stubs and scopes do not count."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Pass | _Scope):
        return False
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return False
    return not (isinstance(node, ast.Raise) and "NotImplementedError" in ast.dump(node))


def _words(node: ast.AST) -> Iterator[str]:
    """Yield a word for each node. Parents come before their children."""
    if isinstance(node, _STRUCTURE):
        return
    match node:
        case ast.Name():
            yield "name"
        case ast.Attribute():
            yield f".{node.attr}"
        case ast.Constant(value=str() | bytes()):
            yield "text"
        case ast.Constant():
            yield repr(node.value)
        case ast.keyword():
            yield f"{node.arg}="
        case _:
            yield type(node).__name__
    for child in ast.iter_child_nodes(node):
        yield from _words(child)


def _winnowed(words: list[str]) -> Iterator[int]:
    grams = (" ".join(words[i : i + _GRAM]) for i in range(len(words) - _GRAM + 1))
    hashes = [zlib.crc32(gram.encode("utf-8", "replace")) for gram in grams]
    for i in range(max(len(hashes) - _WINDOW + 1, min(1, len(hashes)))):
        yield min(hashes[i : i + _WINDOW])
