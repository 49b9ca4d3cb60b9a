"""What is the user's, in short: values and exceptions, whatever they do when they are shown."""

from __future__ import annotations

import re
from typing import Any

MOST = 600  # characters of an exception: a missing kernel's lists all backends there are
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # differs from run to run
# Every signature that there is, each with a reason against it; what was given stands before them.
_SIGNATURES = re.compile(r", but expected one of:.*", re.DOTALL)


def shown(value: Any, most: int = 40) -> str:
    """Return the beginning of a value's ``repr``, or its type where that raises."""
    try:
        return _ADDRESS.sub("", repr(value))[:most]
    except Exception:
        return f"a {type(value).__name__}"


def said(error: BaseException, most: int | None = MOST) -> str:
    """Return what an exception says, cut where it is too long to be read."""
    try:
        text = _SIGNATURES.sub("", _ADDRESS.sub("", str(error))).strip()
    except Exception:
        return ""
    return text if most is None or len(text) <= most else f"{text[:most]} …"


def first_line(error: BaseException) -> str:
    """Return the first line of what an exception says."""
    return (said(error).splitlines() or ["without a message"])[0]
