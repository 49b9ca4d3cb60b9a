"""Keep standard output for the report alone."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


def own_stdout() -> TextIO:
    """Return standard output; what anyone else prints from now on goes to standard error.

    That includes code below Python, child processes, and what is printed when the process ends:
    so it is never given back. Only a command may call this, which has the process to itself.
    """
    out = sys.stdout
    out.flush()
    try:
        shared = out.fileno() == 1
    except io.UnsupportedOperation:  # a test's stand-in
        shared = False
    if shared:
        out = os.fdopen(os.dup(1), "w", encoding=out.encoding, errors="replace")
        os.dup2(2, 1)
    sys.stdout = sys.stderr
    return out
