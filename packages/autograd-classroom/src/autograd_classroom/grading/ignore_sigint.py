"""Let Ctrl-C reach the command, but not the processes that it starts."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def ignore_sigint() -> Iterator[None]:
    """Start processes that ignore Ctrl-C, because they inherit this setting."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # outside the main thread, which is the only one that Ctrl-C interrupts
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
