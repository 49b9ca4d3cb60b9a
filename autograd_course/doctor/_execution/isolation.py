"""What user code prints while it is examined, which it would print at every one of many calls."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout

MOST = 2000  # characters that are kept
LONG = 2.0  # seconds


class Bounded(io.TextIOBase):
    """A stream that keeps the first characters that are written to it, and counts the others."""

    def __init__(self, most: int = MOST) -> None:
        self._most, self._kept, self._left_out = most, "", 0

    def writable(self) -> bool:
        """Whether it can be written to: yes."""
        return True

    def write(self, text: str) -> int:
        """Keep what fits."""
        room = self._most - len(self._kept)
        self._kept += text[:room]
        self._left_out += len(text[room:])
        return len(text)

    @property
    def text(self) -> str:
        """What was written, and how much of it is left out."""
        rest = f"\n… ({self._left_out:,} more characters)\n" if self._left_out else ""
        return self._kept + rest


class _Aside(Bounded):
    """A bounded stream for the code of one thread; a debugger and other threads print as before."""

    def __init__(self) -> None:
        super().__init__()
        self._out = sys.stdout
        here = threading.get_ident()
        self._others = {thread.ident for thread in threading.enumerate()} - {here}

    def write(self, text: str) -> int:
        """Keep what fits, and pass on what the examined code did not print."""
        if threading.get_ident() in self._others or _debugging():
            return self._out.write(text)
        return super().write(text)

    def flush(self) -> None:
        """Show what was passed on."""
        self._out.flush()


@contextmanager
def printed_once(pass_once: Callable[[], object]) -> Iterator[None]:
    """Run a block that calls user code many times; show what one call of ``pass_once`` prints.

    Where the block printed nothing, ``pass_once`` is not called. Where the block raises after a
    long time, the code may never end: then the first part of its own output is shown.
    """
    aside, began = _Aside(), time.monotonic()
    slow = False
    try:
        with redirect_stdout(aside):
            yield
    except BaseException:
        slow = time.monotonic() - began > LONG
        raise
    finally:
        shown: Bounded = aside
        if aside.text and not slow:
            shown = Bounded()
            with redirect_stdout(shown):
                pass_once()
        sys.stdout.write(shown.text)


def _debugging() -> bool:
    """Whether a debugger is what prints: its prompt must be seen."""
    frame = sys._getframe()
    while (caller := frame.f_back) is not None:
        if caller.f_globals.get("__name__") == "bdb":
            return True
        frame = caller
    return False
