"""Run the code on a page as a reader would: block by block, in one namespace."""

from __future__ import annotations

import ast
import contextlib
import io
import re
from typing import Any

BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections(page: str) -> dict[str, str]:
    """Return the text of a page by heading. The text before the first heading has the key ""."""
    first, *rest = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return {"": first} | dict(zip(rest[::2], rest[1::2], strict=True))


def run(code: str, names: dict[str, Any]) -> tuple[Any, str]:
    """Run a block as a notebook cell. Return the value of its last expression, and its output."""
    tree, value, printed = ast.parse(code), None, io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<page>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<page>", "eval"), names)
    return value, printed.getvalue()
