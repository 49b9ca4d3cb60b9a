"""Single keys from a terminal, as they are pressed; none where there is no terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

_ARROWS = {"\x1b[C": "n", "\x1b[B": "n", "\x1b[D": "p", "\x1b[A": "p"}


class Keys(Protocol):
    """What the watching asks: whether keys come at all, what to wait on, which came."""

    waits_on: tuple[int, ...]
    are_read: bool

    def pressed(self) -> str:
        """Return the keys that were pressed since, in lower case, without waiting."""


class NoKeys:
    """Nobody is at a keyboard."""

    waits_on: tuple[int, ...] = ()
    are_read = False

    def pressed(self) -> str:
        """Return nothing."""
        return ""


class _Terminal:
    are_read = True

    def __init__(self) -> None:
        self.waits_on: tuple[int, ...] = (sys.stdin.fileno(),)

    def pressed(self) -> str:
        """Return what was typed; the end of the input is ``q``, else it would be read for ever."""
        import select

        if not select.select(self.waits_on, (), (), 0)[0]:
            return ""
        try:
            typed = os.read(self.waits_on[0], 64).decode("utf-8", "replace")
        except OSError:  # the terminal was closed
            typed = ""
        return _ARROWS.get(typed, typed.lower()) or "q"


class _Console:  # pragma: no cover - Windows alone
    """The keyboard of a Windows console."""

    waits_on: tuple[int, ...] = ()
    are_read = True

    def pressed(self) -> str:
        """Return the keys that the console has waiting."""
        import msvcrt

        typed = ""
        while msvcrt.kbhit():  # type: ignore[attr-defined]
            typed += msvcrt.getwch()  # type: ignore[attr-defined]
        return typed.lower()


@contextmanager
def keyboard() -> Iterator[Keys]:
    """Read single keys for a while; the terminal is put back as it was."""
    if not sys.stdin.isatty():
        yield NoKeys()
    elif sys.platform == "win32":  # pragma: no cover
        yield _Console()
    else:
        import termios
        import tty

        before = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin)
        try:
            yield _Terminal()
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
