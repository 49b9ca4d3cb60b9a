"""Run a learner's cells, and find the answer among their definitions."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from autograd_course.errors import CourseError, first_line
from autograd_course.execution import line_in

_MODULE = "submission"  # the module name of classes that the cells define


class CellError(CourseError):
    """Raised when a cell fails. The message names the exception and the line."""


def run(cells: Sequence[str]) -> dict[str, Any]:
    """Run the cells in order, and return the names that they define. Raises :class:`CellError`."""
    module = ModuleType(_MODULE)
    sys.modules[_MODULE] = module
    for number, source in enumerate(cells, 1):
        _run(source, f"<cell {number}>", vars(module))
    return vars(module)


def _run(source: str, filename: str, defined: dict[str, Any]) -> None:
    # Register the source, so that ``inspect`` and tracebacks can find the learner's lines.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    try:
        exec(compile(source, filename, "exec"), defined)
    except SyntaxError as error:
        raise CellError(f"the cell is not Python: {error.msg} (line {error.lineno}).") from None
    except (Exception, SystemExit) as error:
        told = f"{type(error).__name__}: {first_line(error)}{line_in(error, filename)}"
        raise CellError(f"the cell raises {told}.") from None
