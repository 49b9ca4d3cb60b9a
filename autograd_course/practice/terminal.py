"""The terminal output and keyboard input of ``watch``.

If the output is not a terminal, ``watch`` reads no keys and prints each result on one line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.table import Table
from rich.text import Text

from autograd_course.index import INDEX
from autograd_course.learner.store import load
from autograd_course.practice.running import Graded, without_next
from autograd_course.practice.view import View

_ARROWS = {"\x1b[C": "n", "\x1b[B": "n", "\x1b[D": "p", "\x1b[A": "p"}


class Keys(Protocol):
    """The keyboard for ``watch``: whether it exists, the file to wait on, and the pressed keys."""

    waits_on: tuple[int, ...]
    are_read: bool

    def pressed(self) -> str:
        """Return the keys that were pressed since the last call, in lowercase, without waiting."""


class NoKeys:
    """A keyboard without keys, for input that ``watch`` does not read."""

    waits_on: tuple[int, ...] = ()
    are_read = False

    def pressed(self) -> str:
        """Return no keys."""
        return ""


class _Terminal:
    are_read = True

    def __init__(self) -> None:
        self.waits_on: tuple[int, ...] = (sys.stdin.fileno(),)

    def pressed(self) -> str:
        """Return the pressed keys. The end of the input counts as ``q``, which ends ``watch``."""
        import select

        if not select.select(self.waits_on, (), (), 0)[0]:
            return ""
        try:
            typed = os.read(self.waits_on[0], 64).decode("utf-8", "replace")
        except OSError:  # the terminal was closed
            typed = ""
        return _ARROWS.get(typed, typed.lower()) or "q"


class _Console:  # pragma: no cover - Windows alone
    """The keyboard of a console on Windows."""

    waits_on: tuple[int, ...] = ()
    are_read = True

    def pressed(self) -> str:
        """Return the keys in the console's buffer."""
        import msvcrt

        typed = ""
        while msvcrt.kbhit():  # type: ignore[attr-defined]
            typed += msvcrt.getwch()  # type: ignore[attr-defined]
        return typed.lower()


@contextmanager
def keyboard() -> Iterator[Keys]:
    """Read single keys in a ``with`` block, and restore the terminal afterward."""
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


_MARK = {"passed": "✓", "wrong": "✗", "not attempted": "○", "grader failed": "!", "": "·"}
_INK = {"passed": "green", "wrong": "red", "grader failed": "yellow"}
_KEYS = "n next   p previous   h hint   l list   q quit"


class Lines:
    """A display that prints one line for each change, without control sequences."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def show(self, view: View) -> None:
        """Print what has changed: a problem with the file, and new results."""
        self._say("", view.notice)
        for exercise in view.tasks:
            result = view.result(exercise)
            if result is not None and view.is_current(exercise):
                self._say(exercise, f"{result.text}{_printed(result)}\n")

    def _say(self, about: str, text: str) -> None:
        if self._said.get(about, "") != text:
            self._said[about] = text
            if text:
                print(text, flush=True)


class Screen:
    """A display that fills the terminal: the file, the verdict, a hint or list, and the keys."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._drawn: tuple[View, os.terminal_size] | None = None

    def show(self, view: View) -> None:
        """Draw a view, unless this view is already on the screen."""
        drawn = view, os.get_terminal_size()
        if drawn != self._drawn:
            self._drawn = drawn
            self._live.update(_layout(view, self._live.console.width), refresh=True)


@contextmanager
def screen() -> Iterator[Screen]:
    """Use the whole terminal in a ``with`` block, and restore its contents afterward."""
    # A periodic refresh would need a thread, but the process forks.
    with Live(console=Console(), screen=True, auto_refresh=False, transient=True) as live:
        yield Screen(live)


def _layout(view: View, width: int) -> Layout:
    layout = Layout()
    layout.split_column(
        Layout(_head(view), size=2),
        Layout(_body(view, width - 1)),
        Layout(Text(_KEYS, "dim", no_wrap=True), size=1),
    )
    return layout


def _head(view: View) -> Text:
    name = _from_here(view.path) if view.path else ""
    passed = sum(map(view.has_passed, view.tasks))
    counted = f"{passed} of {len(view.tasks)} passed here" if view.tasks else ""
    return Text(" · ".join(filter(None, [name, counted])), "bold", no_wrap=True)


def _body(view: View, width: int) -> RenderableType:
    if view.listed:
        return _list(view)
    notice = [Text(f"! {view.notice}\n", "yellow")] if view.notice else []
    result = view.result(view.shown)
    if result is None:
        waiting = f"grading {view.shown} …" if view.shown else ""
        return Group(*notice, Text(waiting, "dim"))
    parts = [*notice, *_verdict(view, without_next(result), width)]
    return Group(*parts, Text(f"\n{view.hint}" if view.hint else "", "cyan"))


def _verdict(view: View, result: Graded, width: int) -> Iterator[Text]:
    if not view.is_current(view.shown):
        yield Text("grading the saved answer …", "dim")
    yield result.rich(width)
    if result.printed:
        yield Text(_printed(result), "dim")
    if result.passed:
        all_passed = all(map(view.has_passed, view.tasks))
        said = "Every exercise of this file is passed." if all_passed else "Press n to go on."
        yield Text(f"\n{said}", "green")


def _list(view: View) -> Table:
    """Return a list of all exercises and their states, from this session or the saved progress."""
    kept = load().state
    table = Table.grid(padding=(0, 2))
    for exercise in view.tasks:
        result = view.result(exercise)
        status = result.status if result else kept[exercise].status
        told = status if result else f"{status} before" if status else ""
        here = "▸" if exercise == view.shown else " "
        ink = _INK.get(status, "")
        marked = Text(f"{here} {_MARK[status]}", ink)
        table.add_row(marked, exercise, INDEX[exercise].title, Text(told, ink))
    return table


def _printed(result: Graded) -> str:
    lines = "".join(f"\n  {line}" for line in result.printed.splitlines()[-8:])
    return f"\n  your code printed:{lines}" if lines else ""


def _from_here(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
