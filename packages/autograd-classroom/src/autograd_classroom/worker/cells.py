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
_MODULE = "__main__"  # as in Jupyter, so that code below ``if __name__ == "__main__":`` runs


class CellError(CourseError):
    """Raised when a cell fails. The message names the exception and the line."""


def run(cells: Sequence[str], name: str) -> tuple[Any, str]:
    """Run the cells in order. Return the object called ``name``, and any later error in its cell.

    As in Jupyter, the object remains if the last cell defines it and then raises an error.

    Raises:
        CellError: A cell raises an error before it defines the object.
        LookupError: No cell defines the object.
    """
    module = ModuleType(_MODULE)
    sys.modules[_MODULE] = module
    defined, flags = vars(module), 0
    for number, source in enumerate(cells, 1):
        earlier = defined.get(name)
        try:
            flags |= _run(source, f"<cell {number}>", defined, flags)
        except CellError as error:
            if number < len(cells) or defined.get(name) is earlier:
                raise
            return defined[name], str(error)
    return defined[name], ""


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
        absent = isinstance(error, ModuleNotFoundError)
        lacks = " The grader has only the packages of the course." if absent else ""
        raise CellError(f"the cell raises {told}.{lacks}") from None
    return int(code.co_flags & _FUTURE)
