"""Compute fingerprints of code that ignore variable names, layout, comments and the given stub.

The algorithm converts the syntax tree of each function body to a sequence of words, with one word
for each node. It replaces all variables with the same word, but keeps the names and values of
attributes, keywords and numbers. It hashes each group of consecutive words. From each window of
neighboring hashes, it keeps only the smallest one. Code therefore keeps its fingerprints if it is
moved or surrounded by other code (Schleimer, Wilkerson and Aiken, "Winnowing", 2003).
"""

from __future__ import annotations

import ast
import zlib
from collections.abc import Iterator
from itertools import islice

_GRAM = 7  # number of words that are hashed together
_WINDOW = 4  # number of neighboring hashes per window; only the smallest is kept
_MOST = 20_000  # maximum number of words from one function body
_STRUCTURE = ast.expr_context | ast.arguments | ast.arg | ast.Pass
_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def fingerprints(source: str) -> frozenset[int]:
    """Return the code's fingerprints. There are none for an unchanged stub or invalid code."""
    try:
        tree = ast.parse(source)
        found: set[int] = set()
        for body in _bodies(tree):
            words = (word for node in body for word in _words(node))
            found.update(_winnowed(list(islice(words, _MOST))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(found)


def _bodies(tree: ast.Module | _Scope) -> Iterator[list[ast.stmt]]:
    """Yield the statements of the module and of each function and class in it.

    The statements of a nested function or class appear only in its own list.
    """
    yield [node for node in tree.body if _own(node)]
    for node in tree.body:
        if isinstance(node, _Scope):
            yield from _bodies(node)


def _own(node: ast.stmt) -> bool:
    """Return whether a statement counts. Imports, docstrings, stubs and scopes do not count."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Pass | _Scope):
        return False
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return False
    return not (isinstance(node, ast.Raise) and "NotImplementedError" in ast.dump(node))


def _words(node: ast.AST) -> Iterator[str]:
    """Yield a word for the node and for each node below it. Parents come before their children."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, _STRUCTURE):
            continue
        match part:
            case ast.Name():
                yield "name"
            case ast.Attribute():
                yield f".{part.attr}"
            case ast.Constant(value=str() | bytes()):
                yield "text"
            case ast.Constant():
                yield repr(part.value)
            case ast.keyword():
                yield f"{part.arg}="
            case _:
                yield type(part).__name__
        waiting += reversed(list(ast.iter_child_nodes(part)))


def _winnowed(words: list[str]) -> Iterator[int]:
    grams = (" ".join(words[i : i + _GRAM]) for i in range(len(words) - _GRAM + 1))
    hashes = [zlib.crc32(gram.encode("utf-8", "replace")) for gram in grams]
    for i in range(max(len(hashes) - _WINDOW + 1, min(1, len(hashes)))):
        yield min(hashes[i : i + _WINDOW])
