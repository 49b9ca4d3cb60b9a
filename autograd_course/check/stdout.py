"""Keep other output out of standard output."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


def own_stdout() -> TextIO:
    """Return standard output, and redirect all later output of other code to standard error.

    The redirection includes native code, child processes and atexit handlers. It cannot be undone,
    so only a command that owns the whole process may call this function.
    """
    out = sys.stdout
    out.flush()
    try:
        shared = out.fileno() == 1
    except io.UnsupportedOperation:  # a test replaced it
        shared = False
    if shared:
        out = os.fdopen(os.dup(1), "w", encoding=out.encoding, errors="replace")
        os.dup2(2, 1)
    sys.stdout = sys.stderr
    return out
