"""Remove ``grade(…)`` calls, magics and similar statements from a cell. Keep the line numbers."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable

from IPython.core.inputtransformer2 import TransformerManager

from autograd_course.extraction.statements import LONGEST, Statement, first_line
from autograd_course.notebook_files import tree_of

# These calls ask a question or show something. No answer needs them.
TALK = frozenset(
    {
        *("diagnose", "explain", "grade", "hint", "knowledge_check", "progress", "reset"),
        *("display", "help", "input"),
    }
)
_RUNS_ITS_BODY = re.compile(r"\s*%%(time|capture|prun)\b[^\n]*")
_LINE_MAGIC = re.compile(r"(?m)^\s*[%!?]|\?\s*$|=\s*[%!]")
_MOST_WORK = 100_000  # limit for cells with magics: Jupyter rereads the whole cell for each magic
_CELL_MAGIC = re.compile(r"\s*%%[a-zA-Z!]")


def python_of(source: str) -> str:
    """Return the Python code that Jupyter runs for a cell. Magics become ``get_ipython`` calls."""
    if magic := _RUNS_ITS_BODY.match(source):
        source = "#" + "\n#".join(magic[0].split("\n")) + source[magic.end() :]
    elif _CELL_MAGIC.match(source):
        return ""
    if len(source) > LONGEST or tree_of(source) or _is_flood(source):
        return source
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            transform: Callable[[str], str] = TransformerManager().transform_cell  # type: ignore[no-untyped-call]
            changed = transform(source)
    except Exception:  # Jupyter may raise any exception; Python's parser reports errors better
        return source
    return changed if tree_of(changed) else source


def is_talk(statement: Statement) -> bool:
    """Return whether a statement only calls Jupyter or the course (a magic, ``grade(…)``)."""
    if "get_ipython" in statement.needs:
        return True
    node = statement.node
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in TALK


def without_talk(source: str, found: tuple[Statement, ...]) -> str:
    """Return the cell with ``pass`` in place of each statement that ``is_talk`` recognizes."""
    lines = source.encode().splitlines()
    for statement in reversed(found):
        if is_talk(statement):
            _blank(lines, statement.node)
    return b"\n".join(lines).decode()


def _blank(lines: list[bytes], node: ast.stmt) -> None:
    begin, end = first_line(node) - 1, (node.end_lineno or node.lineno) - 1
    rest = lines[end][node.end_col_offset :]
    lines[begin : end + 1] = [
        lines[begin][: node.col_offset] + b"pass" + rest,
        *[b""] * (end - begin),
    ]


def _is_flood(source: str) -> bool:
    return len(_LINE_MAGIC.findall(source)) * len(source) > _MOST_WORK
