"""Compare two texts side by side, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

_MOST = 300  # maximum number of lines from each text


@dataclass(frozen=True)
class Line:
    """One line from each text and whether they differ. If a text has no such line, it is empty."""

    left: str
    right: str
    differs: bool


def side_by_side(left: str, right: str) -> Iterator[Line]:
    """Yield the lines of two texts side by side. Equal lines are next to each other."""
    lines = left.strip("\n").split("\n")[:_MOST], right.strip("\n").split("\n")[:_MOST]
    matcher = SequenceMatcher(None, *lines, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        for one, other in zip_longest(lines[0][a:b], lines[1][c:d], fillvalue=""):
            yield Line(one, other, kind != "equal")
