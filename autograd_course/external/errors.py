"""What goes wrong while C++ is built, said in a sentence about the author's own source."""

from __future__ import annotations

import re
from pathlib import Path

from autograd_course.errors import CourseError

# GCC, Clang: f.cpp:7:12: error: …   MSVC: f.cpp(7): error C2065: …   nvcc: f.cu(7): error: …
_ERROR = re.compile(
    r"^(?P<file>.+?)[:(](?P<line>\d+)(?::\d+|\))?\s?:(?: fatal)? error(?: C\d+)?: (?P<what>.+)$"
)
_FROM_HERE = re.compile(
    r"^(?P<file>.+?)[:(](?P<line>\d+)[:)].*\b(?:required from|in instantiation of)"
)
# PyTorch 2.11 says so, leaves the operator out and goes on; later ones end the process.
REFUSED = "Exception in aoti_torch"
_UNDEFINED = re.compile(r"undefined (?:symbol: |reference to [`'])(?P<name>[^'\s]+)")


class BuildError(CourseError, RuntimeError):
    """C++ that cannot be built: no compiler, or a source that does not compile.

    ``message`` says what is wrong in one line, ``line`` is the line of the author's source that it
    is about, or ``None``; ``log`` is all that the compiler said.
    """

    def __init__(
        self, message: str, line: int | None = None, shown: str = "", log: str = ""
    ) -> None:
        super().__init__(shown or message)
        self.message, self.line, self.log = message, line, log


def explained(log: str, sources: list[Path]) -> BuildError:
    """Return the error that a failed build's ``log`` is about.

    An error inside a header is put on the line of ``sources`` that led there.
    """
    found = _first_error(log.splitlines(), {str(path): path for path in sources})
    if found is None:
        return _after_compiling(log)
    path, line, what = found
    shown = f"The C++ does not compile: {path.name}, line {line}: {what}"
    text = path.read_text(encoding="utf-8").splitlines()
    if 0 < line <= len(text):
        shown += f"\n    {text[line - 1].strip()}"
    return BuildError(what, line, shown, log)


def _first_error(lines: list[str], own: dict[str, Path]) -> tuple[Path, int, str] | None:
    """Return file, line and message of the first error, placed in one of the files ``own``."""
    led_here: tuple[Path, int] | None = None
    elsewhere: str | None = None
    for text in lines:
        if (here := _FROM_HERE.match(text)) and here["file"] in own:
            led_here = own[here["file"]], int(here["line"])
        if not (error := _ERROR.match(text)):
            continue
        if error["file"] in own and elsewhere is None:
            return own[error["file"]], int(error["line"]), error["what"]
        elsewhere = elsewhere or error["what"]
        if led_here:
            break
    return (*led_here, elsewhere) if led_here and elsewhere else None


def _after_compiling(log: str) -> BuildError:
    if undefined := _UNDEFINED.search(log):
        what = f"The C++ uses a function that is defined nowhere: {undefined['name']}"
    elif "what():" in log or REFUSED in log:
        what = (
            "The C++ compiles, but its operators cannot be registered: look at the schemas in "
            "m.def and at the names in m.impl"
        )
    else:
        lines = [line.strip() for line in log.splitlines() if line.strip()]
        what = f"The C++ cannot be built: {lines[-1] if lines else 'the compiler said nothing'}"
    return BuildError(what, log=log)
