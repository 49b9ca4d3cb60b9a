"""Convert a notebook to a page of the book that has saved outputs and no live parts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy

import nbformat
from nbformat import NotebookNode

from tools.book.links import Places, linked_html, relinked
from tools.book.live import LivePage
from tools.book.pictures import (
    lacks_its_picture,
    last_statement,
    with_words,
    without_views,
)
from tools.book.questions import answered, voted
from tools.errors import AuthoringError
from tools.outputs import UNSAVED

_LINK = re.compile(r"\A\[Open in Colab\][^\n]*\n+")
_CHECK = re.compile(r'^knowledge_check\("(\w+)"\)$', re.MULTILINE)
_VOTE = re.compile(r'^vote\("(\w+)", "([\w-]+)"\)$', re.MULTILINE)
_UNSAVED = "What this cell prints is about the machine that it runs on, and is not saved.\n"


def page(
    notebook: NotebookNode, place: str, places: Places, live: LivePage | None = None
) -> NotebookNode:
    """Return a page of the book for the executed ``notebook`` at ``place``.

    The notebook does not change.

    ``live`` supplies the page's widgets, votes and checks. Without ``live``, the page contains only
    pictures of them.

    Raises AuthoringError if a widget has no saved picture.
    """
    shown = deepcopy(notebook)
    shown.metadata.pop("widgets", None)
    live = live or LivePage(place, places.settings.colab_url(place))
    shown.cells = [
        cell
        for number, given in enumerate(shown.cells)
        for cell in _shown(given, number, live, places)
    ]
    first = shown.cells[0]
    first.source = _headed(first.source, place, places)
    return shown


def _shown(
    cell: NotebookNode, number: int, live: LivePage, places: Places
) -> Iterator[NotebookNode]:
    place = live.place
    if cell.cell_type == "markdown":
        cell.source = relinked(cell.source, place, places)
        yield cell
    elif "setup" not in cell.metadata.get("tags", ()):
        yield _code(cell, number, live, places)
        yield from _asked(cell, live, places)


def _code(cell: NotebookNode, number: int, live: LivePage, places: Places) -> NotebookNode:
    place = live.place
    if lacks_its_picture(cell):
        shown = last_statement(cell.source)
        problem = f"the line {shown!r} shows a widget, and its picture is not saved"
        repair = "run the notebook and save it, or run `make notebooks`"
        raise AuthoringError(places.root / place, 1, problem, repair)
    without_views(cell)
    tags = cell.metadata.setdefault("tags", [])
    if cell.metadata.get("jupyter", {}).get("source_hidden"):
        tags.append("hide-input")
    if UNSAVED in tags:
        cell.outputs = [nbformat.v4.new_output("stream", text=_UNSAVED)]
    for output in cell.outputs:
        if html := output.get("data", {}).get("text/html"):
            output.data["text/html"] = linked_html(html, place, places)
    with_words(cell, live.colab)
    cell.outputs[:0] = [_html(element) for element in live.widgets(number)]
    return cell


def _html(text: str) -> NotebookNode:
    made: NotebookNode = nbformat.v4.new_output("display_data", data={"text/html": text})
    return made


def _asked(cell: NotebookNode, live: LivePage, places: Places) -> Iterator[NotebookNode]:
    """Yield the cell with a knowledge check or vote that replaces the output of ``cell``."""
    for pattern, text, element in (
        (_CHECK, answered, live.knowledge_check),
        (_VOTE, voted, live.vote),
    ):
        if match := pattern.search(cell.source):
            cell.outputs = []
            questions = relinked(text(*match.groups()), live.place, places)
            shown = f"{element(*match.groups())}\n\n::::{{div}} questions\n{questions}\n::::"
            yield nbformat.v4.new_markdown_cell(shown)


def _headed(text: str, place: str, places: Places) -> str:
    """Return the first cell's text. Links below the title replace the link above the title."""
    title, _, rest = _LINK.sub("", text).lstrip().partition("\n")
    links = [f"[Open in Colab]({places.settings.colab_url(place)})"]
    stem = place.rpartition("/")[2]
    for other, words in (("notebooks", "The lesson"), ("exercises", "The exercises")):
        if f"{other}/{stem}" in places.files and not place.startswith(other):
            links.append(f"[{words}](../{other}/{stem})")
    parts = (f":::{{div}} page-links\n{' '.join(links)}\n:::", READ_HERE)
    return "\n\n".join((title, *parts, rest))


READ_HERE = """:::{div} read-here
Widgets and questions work on this page, but the code does not run. To run it, open this page in
Colab or in JupyterLab.
:::"""
