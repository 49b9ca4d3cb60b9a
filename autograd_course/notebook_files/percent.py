"""Read scripts that are divided into cells by ``# %%`` (py:percent) or ``# In[3]:`` (nbconvert)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from autograd_course.notebook_files.cells import Cell, Kind

_BEGINS = re.compile(r"(?m)^# ?%%(?P<header>.*)$|^# In ?\[[ \d]*\]:[ \t]*$")
_KIND = re.compile(r"^[^\[=]*\[(markdown|md|raw)\]")
_NBGRADER = re.compile(r"\bnbgrader=")
_KINDS: dict[str, Kind] = {"markdown": "markdown", "md": "markdown", "raw": "raw"}


def cells_of(text: str) -> Iterator[Cell]:
    """Yield the cells of a script. Text before the first marker is also a code cell."""
    marks = list(_BEGINS.finditer(text))
    first = marks[0].start() if marks else len(text)
    if text[:first].strip():
        yield Cell("code", text[:first].strip("\n"))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends, strict=False):  # without markers, the only end has no cell
        header = mark["header"] or ""
        yield Cell(_kind(header), text[mark.end() : end].strip("\n"), _grade_id(header))


def _kind(header: str) -> Kind:
    said = _KIND.match(header)
    return _KINDS[said[1]] if said else "code"


def _grade_id(header: str) -> str:
    said = _NBGRADER.search(header)
    if said is None:
        return ""
    try:
        metadata, _ = json.JSONDecoder().raw_decode(header, said.end())
    except (ValueError, RecursionError):
        return ""
    grade_id = metadata.get("grade_id", "") if isinstance(metadata, dict) else ""
    return grade_id if isinstance(grade_id, str) else ""
