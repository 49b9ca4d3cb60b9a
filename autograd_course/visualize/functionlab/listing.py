"""The source of forward and backward, row by row, and which code object each part belongs to."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from autograd_doctor.extension import own_source
from torch.autograd import Function

from autograd_course.visualize.functionlab.trace import Phase
from autograd_course.visualize.kit.inputs import title


@dataclass(frozen=True)
class Part:
    """One function of the listing; ``first`` is the row of its first line.

    ``lines`` has the line in the file for each row, so that a running line finds its row.
    """

    heading: str
    phase: Phase
    code: CodeType
    first: int
    lines: tuple[int, ...]
    rows: tuple[str, ...]

    def row(self, line: int) -> int | None:
        """Return the row of a line of the file; the ``def`` stands for what comes before it."""
        if line in self.lines:
            return self.first + self.lines.index(line)
        return self.first if self.lines and line < self.lines[0] else None


@dataclass(frozen=True)
class Listing:
    """What is shown of the source. ``missing`` names the functions whose source is not to be had.

    ``own`` tells whether backward is written by hand; else it is autograd's.
    """

    parts: tuple[Part, ...]
    missing: tuple[str, ...]
    own: bool

    @property
    def rows(self) -> tuple[str, ...]:
        """All rows of all parts."""
        return tuple(row for part in self.parts for row in part.rows)


def listing(fn: Any, inside: Sequence[type[Function]]) -> Listing:
    """List a Function class, or a callable with the Functions that ran ``inside`` it."""
    parts: list[Part] = []
    missing: list[str] = []
    for heading, phase, function in _functions(fn, inside):
        first = sum(len(part.rows) for part in parts)
        part = _part(heading, phase, function, first)
        if part is None:
            missing.append(heading)
        elif part.code not in [known.code for known in parts]:
            parts.append(part)
    return Listing(tuple(parts), tuple(missing), bool(inside))


def _functions(
    fn: Any, inside: Sequence[type[Function]]
) -> Iterator[tuple[str, Phase, Callable[..., Any]]]:
    if fn not in inside:
        yield title(fn), "forward", getattr(fn, "forward", fn)
    for phase, names in (("forward", ("forward", "setup_context")), ("backward", ("backward",))):
        for function in inside:
            for name in names:
                if getattr(function, name) is not getattr(Function, name):
                    yield f"{function.__name__}.{name}", phase, getattr(function, name)  # type: ignore[misc]


def _part(heading: str, phase: Phase, function: Callable[..., Any], first: int) -> Part | None:
    known = own_source(function)
    if known is None:
        return None
    source, start = known
    code: CodeType = inspect.unwrap(function).__code__
    text = textwrap.dedent("".join(source)).rstrip().split("\n")
    kept = [row for row in range(len(text)) if row not in _unshown(text)]
    lines = tuple(max(start, 1) + row for row in kept)
    return Part(heading, phase, code, first, lines, tuple(text[row] for row in kept))


def _unshown(text: Sequence[str]) -> set[int]:
    """Return the rows of decorators and docstring: they are read once, and not run."""
    try:
        (definition,) = ast.parse("\n".join(text)).body
    except (SyntaxError, ValueError):  # a lambda's line need not be a statement
        return set()
    if not isinstance(definition, ast.FunctionDef):
        return set()
    rows = set(range(definition.lineno - 1))
    if ast.get_docstring(definition) is not None and len(definition.body) > 1:
        doc = definition.body[0]
        rows |= set(range(doc.lineno - 1, doc.end_lineno or doc.lineno))
    return rows
