"""Short strings for the user's values and exceptions, even if formatting them raises an error."""

from __future__ import annotations

import re
from typing import Any

MOST = 600  # maximum length of an exception's message; some messages list all existing backends
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # varies between runs
# A list of all signatures, each with a reason. The text before the list describes the arguments.
_SIGNATURES = re.compile(r", but expected one of:.*", re.DOTALL)


def shown(value: Any, most: int = 40) -> str:
    """Return the beginning of a value's ``repr``, or the name of its type if ``repr`` raises."""
    try:
        return _ADDRESS.sub("", repr(value))[:most]
    except Exception:
        return f"a {type(value).__name__}"


def said(error: BaseException, most: int | None = MOST) -> str:
    """Return the message of an exception, shortened if necessary."""
    try:
        text = _SIGNATURES.sub("", _ADDRESS.sub("", str(error))).strip()
    except Exception:
        return ""
    return text if most is None or len(text) <= most else f"{text[:most]} …"


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message."""
    return (said(error).splitlines() or ["without a message"])[0]
