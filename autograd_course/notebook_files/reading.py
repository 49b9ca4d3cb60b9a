"""Read a notebook from bytes, in the format nbformat 1 to 4 or as a script with cells.

nbformat's own reader stops at the first error. This module reads as much of a damaged file as
possible, and reports the errors.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from autograd_course.notebook_files.cells import Cell, Kind, Notebook, UnreadableError, clean
from autograd_course.notebook_files.decoding import decoded
from autograd_course.notebook_files.percent import cells_of
from autograd_course.notebook_files.salvage import salvaged

_KINDS: dict[str, Kind] = {"code": "code", "raw": "raw"}  # markdown, heading, html etc. are prose
_OTHER_FILES = {
    b"PK\x03\x04": "a zip archive",
    b"%PDF": "a PDF",
    b"\x89PNG": "an image",
    b"\xff\xd8\xff": "an image",
    b"\x1f\x8b": "a gzip archive",
}


def read(data: bytes) -> Notebook:
    """Parse bytes as a notebook. Raises UnreadableError if there are no cells."""
    for begins, kind in _OTHER_FILES.items():
        if data.startswith(begins):
            raise UnreadableError(f"this is {kind}, no notebook: hand in the .ipynb itself")
    text, problems = decoded(data)
    text = text.lstrip("\ufeff")
    notebook = _parsed(text)
    if not any(cell.source.strip() for cell in notebook.cells):
        raise UnreadableError("the file holds no cell: save the notebook and hand it in again")
    cells = tuple(replace(c, source=clean(c.source)) for c in notebook.cells)
    return Notebook(cells, problems + notebook.problems)


def _parsed(text: str) -> Notebook:
    begin = text.lstrip()[:64].lower()
    if begin.startswith(("<!doctype", "<html", "<?xml")):
        raise UnreadableError("this is a web page, no notebook: hand in the .ipynb itself")
    if begin.startswith("{") or '"cell_type"' in text:
        return _from_json(text)
    return Notebook(tuple(cells_of(clean(text))))


def _from_json(text: str) -> Notebook:
    try:
        saved = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _salvaged(text, error)
    found = list(_saved_cells(saved))
    cells = tuple(_cells(found))
    odd = len(found) - len(cells)
    return Notebook(cells, (f"{odd} of {len(found)} cells are not readable",) if odd else ())


def _salvaged(text: str, error: Exception) -> Notebook:
    cells = tuple(_cells(salvaged(text)))
    where = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "some place"
    broken = f"the notebook's JSON is broken at {where}"
    if not cells:
        raise UnreadableError(f"{broken} and no cell of it is whole: save it and hand it in again")
    return Notebook(cells, (f"{broken}; {len(cells)} cells of it could be read",))


def _saved_cells(saved: Any) -> Iterator[Any]:
    """Yield the cells of a saved notebook. Up to nbformat 3, the cells are inside worksheets."""
    if not isinstance(saved, dict):
        raise UnreadableError("this is JSON, but no notebook: hand in the .ipynb itself")
    for part in (saved, *_listed(saved, "worksheets")):
        if isinstance(part, dict):
            yield from _listed(part, "cells")


def _listed(owner: dict[str, Any], key: str) -> list[Any]:
    value = owner.get(key)
    return value if isinstance(value, list) else []


def _cells(saved: Iterable[Any]) -> Iterator[Cell]:
    """Yield the cells that contain text, without their outputs."""
    for cell in saved:
        if not isinstance(cell, dict):
            continue
        source = cell.get("source", cell.get("input"))
        if isinstance(source, list):
            source = "".join(line for line in source if isinstance(line, str))
        if isinstance(source, str):
            yield Cell(_kind(cell), source, _grade_id(cell))


def _kind(cell: dict[str, Any]) -> Kind:
    said = cell.get("cell_type")
    return _KINDS.get(said, "markdown") if isinstance(said, str) else "markdown"


def _grade_id(cell: dict[str, Any]) -> str:
    metadata = cell.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    return clean(grade_id) if isinstance(grade_id, str) else ""
