"""Find the solution regions between nbgrader's markers, line by line and at any indentation.

:func:`cut` replaces each region with a stub at the indentation of its markers::

    def backward(ctx, grad_output):         def backward(ctx, grad_output):
        ### BEGIN SOLUTION                      # YOUR CODE HERE
        return 2 * x * grad_output      →       raise NotImplementedError
        ### END SOLUTION

At the top level of a cell, the stub is only the comment, because the cell must run without an
error. The code that the learner replaces is above the region, as in ``rule = ...``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.errors import AuthoringError

STUB = ("# YOUR CODE HERE", "raise NotImplementedError")

# nbgrader treats every line with these words as a marker, so an invalid marker must raise an error.
_WORDS = re.compile(r"(BEGIN|END) SOLUTION")
_MARKER = re.compile(r"(?P<indent>[ \t]*)### (?P<kind>BEGIN|END) SOLUTION\s*")


@dataclass(frozen=True)
class Region:
    """A solution between two marker lines: the line indices and the indentation of the markers."""

    begin: int
    end: int
    indent: str


@dataclass(frozen=True)
class _Marker:
    index: int
    kind: str
    indent: str


_Fail = Callable[[int, str, str], AuthoringError]  # line index, problem, repair


def find_regions(source: str, path: Path, first_line: int = 1) -> list[Region]:
    """Return the regions in a code cell, in order.

    ``first_line`` is the number of the cell's first line in the file ``path``. Raises
    AuthoringError if a region is nested, unclosed, empty or indented inconsistently. Also raises
    AuthoringError if a marker has no counterpart or is not alone on its line.
    """
    lines = source.splitlines()
    fail = partial(_failure, path, first_line)
    regions: list[Region] = []
    opened: _Marker | None = None
    for marker in _markers(lines, fail):
        if marker.kind == "END":
            regions.append(_region(opened, marker, lines, fail))
            opened = None
        elif opened is None:
            opened = marker
        else:
            repair = f"end the region of line {first_line + opened.index} first"
            raise fail(marker.index, "BEGIN SOLUTION inside a solution", repair)
    if opened is not None:
        repair = "add '### END SOLUTION' in the same cell"
        raise fail(opened.index, "BEGIN SOLUTION is never closed", repair)
    return regions


def cut(source: str, path: Path, first_line: int = 1) -> str:
    """Return ``source`` with every region replaced with the stub."""
    lines = source.splitlines()
    for region in reversed(find_regions(source, path, first_line)):
        stub = STUB if region.indent else STUB[:1]
        lines[region.begin : region.end + 1] = [region.indent + line for line in stub]
    return "\n".join(lines)


def refuse_markers(source: str, path: Path, first_line: int) -> None:
    """Raise AuthoringError if a Markdown cell contains a marker.

    Markdown cells cannot contain solutions.
    """
    for index, line in enumerate(source.splitlines()):
        if _WORDS.search(line):
            problem = "a solution marker in a markdown cell"
            repair = "move the solution to a code cell, or tag the whole cell 'solution-only'"
            raise _failure(path, first_line, index, problem, repair)


def _failure(path: Path, first_line: int, index: int, problem: str, repair: str) -> AuthoringError:
    return AuthoringError(path, first_line + index, problem, repair)


def _markers(lines: Sequence[str], fail: _Fail) -> Iterator[_Marker]:
    for index, line in enumerate(lines):
        if not _WORDS.search(line):
            continue
        match = _MARKER.fullmatch(line)
        if match is None:
            repair = "write '### BEGIN SOLUTION' or '### END SOLUTION' on a line of its own"
            raise fail(index, f"not a clean solution marker: {line.strip()!r}", repair)
        yield _Marker(index, match["kind"], match["indent"])


def _region(begin: _Marker | None, end: _Marker, lines: Sequence[str], fail: _Fail) -> Region:
    if begin is None:
        repair = "remove it, or add '### BEGIN SOLUTION' before the solution"
        raise fail(end.index, "END SOLUTION without a BEGIN", repair)
    body = [line for line in lines[begin.index + 1 : end.index] if line.strip()]
    if not body:
        raise fail(end.index, "an empty solution", "write it, or remove both markers")
    if begin.indent != end.indent or not all(line.startswith(end.indent) for line in body):
        repair = "indent BEGIN, END and the solution's first line equally"
        raise fail(end.index, "the solution is not indented as its markers are", repair)
    return Region(begin.index, end.index, end.indent)
