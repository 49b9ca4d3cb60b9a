"""Remove ``grade(…)`` calls, magics and similar statements from a cell. Keep the line numbers."""

from __future__ import annotations

import ast
import re
import warnings

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
_CELL_MAGIC = re.compile(r"\s*%%[a-zA-Z!]")


class _Jupyter(TransformerManager):
    """Jupyter's reader of cells. For each magic, it reads the whole cell again."""

    def __init__(self, most: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = most
        self.work = 0  # the number of characters read

    def do_one_token_transform(self, lines: list[str]) -> tuple[bool, list[str]]:
        self.work += sum(map(len, lines))
        if self.work > self.most:
            raise SyntaxError("there are too many magics")
        return super().do_one_token_transform(lines)  # type: ignore[no-any-return, no-untyped-call]


def python_of(source: str, most: int) -> tuple[str, int]:
    """Return the Python code that Jupyter runs for a cell, and how many characters Jupyter read.

    Magics become ``get_ipython`` calls. If Jupyter has to read more than ``most`` characters to
    find them, the code does not change.
    """
    if magic := _RUNS_ITS_BODY.match(source):
        source = "#" + "\n#".join(magic[0].split("\n")) + source[magic.end() :]
    elif _CELL_MAGIC.match(source):
        return "", 0
    if len(source) > LONGEST or tree_of(source):
        return source, 0
    jupyter = _Jupyter(most)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            changed = jupyter.transform_cell(source)
    except Exception:  # Jupyter may raise any exception; Python's parser reports errors better
        return source, jupyter.work
    return changed if tree_of(changed) else source, jupyter.work


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
