"""Ctrl-C is for the one who was asked to grade, not for what it started."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def deaf() -> Iterator[None]:
    """Start processes that do not hear Ctrl-C: that it is ignored is inherited."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # outside of the main thread, which alone is interrupted
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
