"""Run a learner's cells, and find the answer among their definitions."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from autograd_course.errors import CourseError, first_line
from autograd_course.execution import line_in

_FUTURE = annotations.compiler_flag  # the only feature of __future__ that is still optional
_MODULE = "submission"  # the module name of classes that the cells define


class CellError(CourseError):
    """Raised when a cell fails. The message names the exception and the line."""


def run(cells: Sequence[str]) -> dict[str, Any]:
    """Run the cells in order, and return the names that they define. Raises :class:`CellError`."""
    module = ModuleType(_MODULE)
    sys.modules[_MODULE] = module
    flags = 0
    for number, source in enumerate(cells, 1):
        flags |= _run(source, f"<cell {number}>", vars(module), flags)
    return vars(module)


def _run(source: str, filename: str, defined: dict[str, Any], flags: int) -> int:
    """Run a cell. Return the flags of its ``from __future__`` imports, which later cells inherit.

    Jupyter does the same.
    """
    # Register the source, so that ``inspect`` and tracebacks can find the learner's lines.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    try:
        code = compile(source, filename, "exec", flags, dont_inherit=True)
        exec(code, defined)
    except SyntaxError as error:
        raise CellError(f"the cell is not Python: {error.msg} (line {error.lineno}).") from None
    except (Exception, SystemExit) as error:
        told = f"{type(error).__name__}: {first_line(error)}{line_in(error, filename)}"
        raise CellError(f"the cell raises {told}.") from None
    return int(code.co_flags & _FUTURE)
