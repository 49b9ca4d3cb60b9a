"""Parse a submitted file as a notebook, and recover as much as possible if it is damaged.

The file may be a notebook in nbformat 1 to 4, or a script with cells. nbformat's own reader stops
at the first error. This module reads as much of a damaged file as it can, and reports the errors.

The module ignores the encoding that a file declares, because Python also supports unusual
encodings.
"""

from __future__ import annotations

import ast
import codecs
import json
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from autograd_course.errors import CourseError

Kind = Literal["code", "markdown", "raw"]


class UnreadableError(CourseError, ValueError):
    """Raised when a file cannot be read. The message is one sentence that gives the reason."""


@dataclass(frozen=True)
class Cell:
    """A notebook cell: its kind, its text, and its nbgrader ``grade_id``."""

    kind: Kind
    source: str
    grade_id: str = ""

    @property
    def is_code(self) -> bool:
        """Whether a kernel would run this cell."""
        return self.kind == "code"


@dataclass(frozen=True)
class Notebook:
    """A notebook's cells in order, and one sentence for each problem with the file.

    If ``is_whole`` is false, the file breaks off, and cells may be missing.
    """

    cells: tuple[Cell, ...]
    problems: tuple[str, ...] = ()
    is_whole: bool = True


def clean(text: str) -> str:
    """Normalize line endings and replace lone surrogates, so that the text can be stored."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    return plain.encode("utf-8", "replace").decode("utf-8")


# All other kinds in a saved notebook, such as heading and html, are prose.
_SAVED_KINDS: dict[str, Kind] = {"code": "code", "raw": "raw"}
_MOST_CODE = 500_000  # the maximum number of characters of code; the longest lesson has 20,000
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
    _refuse_flood(sum(len(cell.source) for cell in notebook.cells if cell.is_code))
    if not any(cell.source.strip() for cell in notebook.cells):
        raise UnreadableError(
            "the file contains no code: save your work and hand in the file again"
        )
    cells = tuple(replace(c, source=clean(c.source)) for c in notebook.cells)
    return replace(notebook, cells=cells, problems=problems + notebook.problems)


def _refuse_flood(characters: int) -> None:
    """Refuse a file whose code would take too long to parse."""
    if characters > _MOST_CODE:
        raise UnreadableError(
            f"the file contains more than {_MOST_CODE:,} characters of code: remove the data from "
            "the code and hand in the file again"
        )


def _parsed(text: str) -> Notebook:
    begin = text.lstrip()[:64].lower()
    if begin.startswith(("<!doctype", "<html", "<?xml")):
        raise UnreadableError("this is a web page, no notebook: hand in the .ipynb itself")
    if begin.startswith("{") or '"cell_type"' in text:
        return _from_json(text)
    _refuse_flood(len(text))
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
    said = f"{broken}; {len(cells)} cells of it could be read"
    return Notebook(cells, (said,), is_whole=False)


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
    """Yield the cells whose source is text, without their outputs."""
    for cell in saved:
        if not isinstance(cell, dict):
            continue
        source = cell.get("source", cell.get("input"))
        if isinstance(source, list):
            source = "".join(line for line in source if isinstance(line, str))
        if isinstance(source, str):
            yield Cell(_saved_kind(cell), source, _saved_grade_id(cell))


def _saved_kind(cell: dict[str, Any]) -> Kind:
    said = cell.get("cell_type")
    return _SAVED_KINDS.get(said, "markdown") if isinstance(said, str) else "markdown"


def _saved_grade_id(cell: dict[str, Any]) -> str:
    metadata = cell.get("metadata")
    nbgrader = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None
    return clean(grade_id) if isinstance(grade_id, str) else ""


# The UTF-32 byte-order mark begins with the UTF-16 mark, so the longer mark comes first.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LEGACY = ("cp1252", "latin-1")  # latin-1 can decode any bytes
_LOOKED_AT = 400


def decoded(data: bytes) -> tuple[str, tuple[str, ...]]:
    """Return the decoded text, and a sentence about the encoding if it is not UTF-8."""
    codec = _by_mark(data) or _by_zeros(data) or "utf-8"
    try:
        text = data.decode(codec)
    except UnicodeDecodeError:
        return _guessed(data, codec)
    if codec in ("utf-8", "utf-8-sig"):
        return text, ()
    return text, (f"the file is not UTF-8; it is read as {codec}",)


def _by_mark(data: bytes) -> str:
    return next((codec for mark, codec in _MARKS if data.startswith(mark)), "")


def _by_zeros(data: bytes) -> str:
    """Recognize UTF-16 without a byte-order mark.

    In Latin text, nearly every second byte is zero.
    """
    head = data[:_LOOKED_AT]
    for start, codec in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(head) > 1 and head[start::2].count(0) > 0.8 * len(head[start::2]):
            return codec
    return ""


def _guessed(data: bytes, codec: str) -> tuple[str, tuple[str, ...]]:
    if codec != "utf-8":
        problem = f"parts of the file are no {codec}, and are replaced by �"
        return data.decode(codec, "replace"), (problem,)
    for legacy in _LEGACY:
        try:
            return data.decode(legacy), (f"the file is not UTF-8; it is read as {legacy}",)
        except UnicodeDecodeError:
            continue
    raise AssertionError("latin-1 decodes every byte")


_CELL_BEGINS = re.compile(r"(?m)^# ?%%(?P<header>.*)$|^# In ?\[[ \d]*\]:[ \t]*$")
# The definition is optional, so that no line of a run of decorators is searched again.
_DEFINITION_BEGINS = re.compile(r"(?m)^(?:@.*\n)*(?P<definition>(?:class|def)\b)?")
_SCRIPT_KIND = re.compile(r"^[^\[=]*\[(markdown|md|raw)\]")
_NBGRADER = re.compile(r"\bnbgrader=")
_SCRIPT_KINDS: dict[str, Kind] = {"markdown": "markdown", "md": "markdown", "raw": "raw"}


def cells_of(text: str) -> Iterator[Cell]:
    """Yield the cells of a script. Text before the first marker is also a code cell.

    If a script without markers is not valid Python, each top-level definition is a cell, so that an
    error in one definition does not affect the others.
    """
    marks = list(_CELL_BEGINS.finditer(text))
    if not marks and tree_of(text) is None:
        found = (each for each in _DEFINITION_BEGINS.finditer(text) if each["definition"])
        cuts = [0, *(begins.start() for begins in found), len(text)]
        yield from (Cell("code", text[a:b].strip("\n")) for a, b in pairwise(cuts))
        return
    first = marks[0].start() if marks else len(text)
    if text[:first].strip():
        yield Cell("code", text[:first].strip("\n"))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends, strict=False):  # without markers, the only end has no cell
        header = mark["header"] or ""
        yield Cell(
            _script_kind(header), text[mark.end() : end].strip("\n"), _script_grade_id(header)
        )


def tree_of(source: str) -> ast.Module | None:
    """Return the syntax tree of some code, or ``None`` if it is not valid Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _script_kind(header: str) -> Kind:
    said = _SCRIPT_KIND.match(header)
    return _SCRIPT_KINDS[said[1]] if said else "code"


def _script_grade_id(header: str) -> str:
    said = _NBGRADER.search(header)
    if said is None:
        return ""
    try:
        metadata, _ = json.JSONDecoder().raw_decode(header, said.end())
    except (ValueError, RecursionError):
        return ""
    grade_id = metadata.get("grade_id", "") if isinstance(metadata, dict) else ""
    return grade_id if isinstance(grade_id, str) else ""


# Jupyter sorts the keys, so a cell begins with one of these.
_JSON_CELL = re.compile(r'\{\s*"(?:attachments|cell_type|execution_count|id|source)"\s*:')
_ATTEMPTS = 2_000  # in a malicious file, each attempt can parse 1,000 levels of nesting
_READINGS = 10  # how often the attempts may read the whole text; an attempt can read all of it


def salvaged(text: str) -> Iterator[dict[str, Any]]:
    """Yield every complete cell in the text, in order."""
    decoder = json.JSONDecoder()
    position = 0
    left = _READINGS * len(text)
    for _ in range(_ATTEMPTS):
        begin = _JSON_CELL.search(text, position)
        if begin is None or left < 0:
            return
        position = begin.end()
        try:
            found, end = decoder.raw_decode(text, begin.start())
        except (ValueError, RecursionError) as error:
            left -= getattr(error, "pos", len(text)) - begin.start()
            continue
        if "cell_type" in found and ("source" in found or "input" in found):
            yield found
            position = end
