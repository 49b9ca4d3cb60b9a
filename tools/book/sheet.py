"""The cheat sheet as a page of the book: the tagged summaries from all lessons, in order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import nbformat

from tools.book.links import MOVED, Places, relinked
from tools.cheat_sheet import TAG

_PLACE = MOVED["docs/cheat_sheet.html"]
_HEAD = """\
# Cheat sheet

This page contains the summaries of all lessons. You can also
[print it on two pages](cheat_sheet.pdf).
"""
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_HEADING = re.compile(r"^##+ .*\n", re.MULTILINE)


def sheet(root: Path, lessons: Iterable[str], places: Places) -> str:
    """Return the cheat sheet as a page in MyST Markdown."""
    return "\n".join([_HEAD, *(_section(root, path, places) for path in lessons)])


def _section(root: Path, path: str, places: Places) -> str:
    cells = nbformat.read(root / path, as_version=4).cells
    tagged = [cell.source for cell in cells if TAG in cell.metadata.get("tags", ())]
    title = next(found[1] for cell in cells if (found := _TITLE.search(cell.source)))
    if not tagged:
        return ""
    text = _HEADING.sub("", "\n\n".join(tagged))
    return f"## [{title}](../{path})\n\n{relinked(text, path, places, _PLACE)}\n"
