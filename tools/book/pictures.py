"""Pictures of widgets on a page, with descriptions for readers who cannot see them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from html import escape
from typing import get_type_hints

import nbformat
from nbformat import NotebookNode

from autograd_course import visualize
from autograd_course.visualize.kit.live import Live
from tools.outputs import WIDGET_VIEW


def _shows_picture(name: str) -> bool:
    called = getattr(visualize, name)
    return inspect.isfunction(called) and issubclass(get_type_hints(called)["return"], Live)


# The functions that save a picture of their widget. A knowledge check saves its questions instead.
WIDGETS = frozenset(filter(_shows_picture, visualize.__all__))

STILL = (
    '<p class="still">This is a still picture. <a href="{}">Open this page in Colab</a> or in '
    "JupyterLab to use its controls.</p>"
)
PLOT = "plot"  # the class of a matplotlib figure on a page
_MATPLOTLIB = "<Figure size"
_LEFT = {"image/png", "text/markdown"}  # the kinds of saved output that a widget has
_SHORT = 150  # a description up to this length is used only as the alternative text


def without_views(cell: NotebookNode) -> NotebookNode:
    """Remove the live views of widgets from ``cell``, because a book has no kernel for them."""
    for output in cell.outputs:
        for bundle in ("data", "metadata"):
            output.get(bundle, {}).pop(WIDGET_VIEW, None)
    return cell


def lacks_its_picture(cell: NotebookNode) -> bool:
    """Return whether a code cell shows a widget but has no saved picture of the widget."""
    shown = [set(output.get("data", ())) for output in cell.outputs]
    if any(output.output_type == "error" for output in cell.outputs):
        return False
    if any(WIDGET_VIEW in kinds and not kinds & _LEFT for kinds in shown):
        return True
    return shows_widget(cell.source) and not any(kinds & _LEFT for kinds in shown)


def shows_widget(source: str) -> bool:
    """Return whether the last line of a cell calls a function that creates a widget."""
    match _statements(source)[-1:]:
        case [ast.Expr(ast.Call(ast.Name(called) | ast.Attribute(attr=called)))]:
            return called in WIDGETS
    return False


def last_statement(source: str) -> str:
    """Return the first line of a cell's last statement."""
    lines, body = source.splitlines(), _statements(source)
    return lines[body[-1].lineno - 1] if body else lines[-1]


def _statements(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except SyntaxError:  # the source is a magic command of IPython
        return []


def with_words(cell: NotebookNode, colab: str) -> NotebookNode:
    """Add alternative text to the picture in ``cell``, and make the description collapsible.

    Below a widget's picture, add a sentence that tells readers where they can use the widget's
    controls. ``colab`` is the address of the notebook in Colab.
    """
    outputs = []
    for output in cell.outputs:
        outputs.append(output)
        if "image/png" in output.get("data", {}):
            account = output.data.get("text/plain", "")
            image = {"alt": alternative(account, cell.source)}
            if account.startswith(_MATPLOTLIB):
                image["classes"] = PLOT
            cell.metadata["mystnb"] = {"image": image}
            if shows_widget(cell.source):
                still = STILL.format(escape(colab))
                outputs.append(nbformat.v4.new_output("display_data", data={"text/html": still}))
            outputs += _folded(account)
    cell.outputs = outputs
    return cell


def alternative(account: str, source: str) -> str:
    """Return the alternative text: the beginning of the description, or a figure's axis titles."""
    if account.startswith(_MATPLOTLIB):
        titles = "; ".join(_titles(source))
        return f"Figure: {titles}." if titles else "Figure, described in the text next to it."
    if len(account) <= _SHORT:
        return " ".join(account.split())
    first, second = account.splitlines()[:2]
    return f"{first} {second.strip()} The rest follows below, in words."


def _titles(source: str) -> Iterator[str]:
    """Yield the axis titles in a figure's code, except titles that contain formatted values."""
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
    # A live widget above the description may already show something else.
    words = f"<summary>In words, as first shown</summary><pre>{escape(account)}</pre>"
    html = f'<details class="account">{words}</details>'
    return [nbformat.v4.new_output("display_data", data={"text/html": html})]
