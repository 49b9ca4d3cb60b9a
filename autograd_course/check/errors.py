"""Errors in the command line: one sentence that names the problem and the fix."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from autograd_doctor._safe_repr import first_line

_PATHS = sysconfig.get_paths()
_INSTALLED = (_PATHS["stdlib"], _PATHS["purelib"], _PATHS["platlib"])


class NotUnderstoodError(ValueError):
    """The command line contains a mistake. The message is one sentence for the user."""


def meant(name: str, known: Iterable[str], suffix: str = "") -> str:
    """Return the end of a sentence about an unknown name, with the closest known name if any."""
    close = get_close_matches(name, list(known), 1)
    return f". Did you mean {close[0]}{suffix}?" if close else "."


def raised(what: str, error: BaseException) -> NotUnderstoodError:
    """Return an error that says what the user's own code raised, and on which line."""
    said = error.msg if isinstance(error, SyntaxError) else first_line(error)
    did = f"raised {type(error).__name__}: {said}"
    if isinstance(error, SystemExit):
        did = "called exit()"
    line = _users_line(error)
    return NotUnderstoodError(f"{what} {did}" + (f" ({line})." if line else "."))


def _users_line(error: BaseException) -> str:
    """Return the innermost line of code that is not part of an installed package."""
    if isinstance(error, SyntaxError):  # the line never ran, so it has no frame
        place = (error.filename, error.lineno, error.text)
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames[1:] if f.line and not f.filename.startswith(_INSTALLED)]
        place = (own[-1].filename, own[-1].lineno, own[-1].line) if own else (None, None, None)
    filename, number, text = place
    return f"{Path(filename).name}:{number}: {text.strip()}" if filename and text else ""
