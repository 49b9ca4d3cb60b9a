"""Compare two pieces of code side by side, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

_MOST = 300  # maximum number of lines from each piece of code


@dataclass(frozen=True)
class Line:
    """A line from each side, and whether the two lines differ. A missing line is empty."""

    left: str
    right: str
    differs: bool


def side_by_side(left: str, right: str) -> Iterator[Line]:
    """Pair the lines of two pieces of code so that equal lines are next to each other."""
    lines = left.strip("\n").split("\n")[:_MOST], right.strip("\n").split("\n")[:_MOST]
    matcher = SequenceMatcher(None, *lines, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        for one, other in zip_longest(lines[0][a:b], lines[1][c:d], fillvalue=""):
            yield Line(one, other, kind != "equal")
