"""Let Ctrl-C interrupt the command but not the processes that it starts."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def ignore_sigint() -> Iterator[None]:
    """Ignore Ctrl-C during a ``with`` block.

    Processes started in the block inherit this setting.
    """
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not in the main thread, and Ctrl-C interrupts only the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
