"""How what was typed is refused: one sentence that names the problem and the repair."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from autograd_course.doctor.shown import first_line

_PATHS = sysconfig.get_paths()
_INSTALLED = (_PATHS["stdlib"], _PATHS["purelib"], _PATHS["platlib"])


class NotUnderstoodError(ValueError):
    """What was typed cannot be used as it is; the message is one sentence for who typed it."""


def meant(name: str, known: Iterable[str], suffix: str = "") -> str:
    """End a sentence about an unknown name: with the closest known one, if any is close."""
    close = get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]}{suffix}?" if close else "."


def raised(what: str, error: BaseException) -> NotUnderstoodError:
    """Say that the user's own code raised, and at which line of it."""
    said = error.msg if isinstance(error, SyntaxError) else first_line(error)
    did = f"raised {type(error).__name__}: {said}"
    if isinstance(error, SystemExit):
        did = "called exit()"
    line = _users_line(error)
    return NotUnderstoodError(f"{what} {did}" + (f" ({line})." if line else "."))


def _users_line(error: BaseException) -> str:
    """Return the innermost line of code that is not part of an installed package."""
    if isinstance(error, SyntaxError):  # of this line there is no frame: it never ran
        place = (error.filename, error.lineno, error.text)
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own = [f for f in frames[1:] if f.line and not f.filename.startswith(_INSTALLED)]
        place = (own[-1].filename, own[-1].lineno, own[-1].line) if own else (None, None, None)
    filename, number, text = place
    return f"{Path(filename).name}:{number}: {text.strip()}" if filename and text else ""
