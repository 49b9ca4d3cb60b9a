"""What a picture says to whoever does not see it: a text alternative, and the account in words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from html import escape

import nbformat
from nbformat import NotebookNode

_MATPLOTLIB = "<Figure size"
_SHORT = 150  # an account of this many characters is the text alternative, and needs no other place


def with_words(cell: NotebookNode) -> NotebookNode:
    """Give the picture that ``cell`` shows its text alternative, and fold its account below it."""
    outputs = []
    for output in cell.outputs:
        outputs.append(output)
        if "image/png" in output.get("data", {}):
            account = output.data.get("text/plain", "")
            cell.metadata["mystnb"] = {"image": {"alt": alternative(account, cell.source)}}
            outputs += _folded(account)
    cell.outputs = outputs
    return cell


def alternative(account: str, source: str) -> str:
    """Return the text alternative: the account's beginning, or the titles of a figure's axes."""
    if account.startswith(_MATPLOTLIB):
        titles = "; ".join(_titles(source))
        return f"Figure: {titles}." if titles else "Figure, described in the text beside it."
    if len(account) <= _SHORT:
        return " ".join(account.split())
    first, second = account.splitlines()[:2]
    return f"{first} {second.strip()} The rest follows below, in words."


def _titles(source: str) -> Iterator[str]:
    """Yield what the code of a figure calls its axes; a formatted value stays out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            called = getattr(node.func, "attr", "")
            title = node.args[0] if called == "set_title" and node.args else given.get("title")
            yield from _text(title)


def _text(node: ast.expr | None) -> Iterator[str]:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    constants = [str(part.value) for part in parts if isinstance(part, ast.Constant)]
    if constants:
        yield " … ".join(" ".join(text.split()) for text in constants)


def _folded(account: str) -> list[NotebookNode]:
    if account.startswith(_MATPLOTLIB) or len(account) <= _SHORT:
        return []
    words = f"<summary>In words</summary><pre>{escape(account)}</pre>"
    html = f'<details class="account">{words}</details>'
    return [nbformat.v4.new_output("display_data", data={"text/html": html})]
