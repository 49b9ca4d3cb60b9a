"""Watch an exercise file. React to saved changes, pressed keys and results, and update the screen.

The code calls ``stat`` several times per second to detect changes. A call takes microseconds and
needs no additional package. Unlike the kernel's change notifications, ``stat`` also works on
network drives, in WSL and in containers.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Protocol

from autograd_course.grader.hints import hint
from autograd_course.notebook_files import UnreadableError
from autograd_course.practice.reading import reading
from autograd_course.practice.running import Grading
from autograd_course.practice.targets import Target, TargetError
from autograd_course.practice.terminal import Keys
from autograd_course.practice.view import View

_Sign = tuple[str, int, int, int]


class Saves:
    """The saved versions of the target's files. Each complete version is reported once."""

    def __init__(self, wanted: Target) -> None:
        self._wanted = wanted
        self._read: _Sign | None = None
        self._last: _Sign | None = None
        self._data = b""
        self._when = 0
        self.path: Path | None = None

    def changed(self) -> bytes | None:
        """Return the version that was saved since the last call, or ``None`` if there is none.

        A file counts as saved if it looks the same twice, because an editor may write it in parts.
        """
        sign = self._looked()
        settled, self._last = sign == self._last, sign
        if sign is None:
            self._read = None  # if the file reappears, report it as new
        if sign is None or not settled or sign == self._read or self.path is None:
            return None
        try:
            data = self.path.read_bytes()
        except OSError:
            return None
        same, self._data = self._read is not None and data == self._data, data
        self._read, self._when = sign, sign[1]
        return None if same else data

    def _looked(self) -> _Sign | None:
        """Return the state of the most recently saved file. If the file is missing, wait for it."""
        latest = self._wanted.latest
        sign = _sign(latest) if latest else None
        if self.path in (None, latest) or (sign is not None and sign[1] > self._when):
            self.path = latest
            return sign
        return _sign(self.path) if self.path else None

    @property
    def gone(self) -> str:
        """The name of the file if it does not exist, or else an empty string."""
        return self.path.name if self.path and self._last is None else ""


def _sign(path: Path) -> _Sign | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return str(path), found.st_mtime_ns, found.st_size, found.st_ino


INTERVAL = 0.05  # seconds between two checks of the file


class Face(Protocol):
    """A display that shows a view."""

    def show(self, view: View) -> None:
        """Show the current state of ``watch``."""


class Watch:
    """One run of ``watch``, for one target."""

    def __init__(self, wanted: Target, keys: Keys, face: Face) -> None:
        self._wanted, self._keys, self._face = wanted, keys, face
        self._saves, self._grading = Saves(wanted), None  # type: Saves, Grading | None
        self._view = View()

    def run(self) -> None:
        """Watch until a key or an exception ends the loop. Then kill any grading process."""
        try:
            while self._go_on():
                self._face.show(self._view)
                self._wait()
        finally:
            if self._grading is not None:
                self._grading.stop()

    def _go_on(self) -> bool:
        self._look()
        self._collect()
        return all(map(self._key, self._keys.pressed()))

    def _wait(self) -> None:
        waiting = [self._grading.connection] if self._grading else []
        if self._keys.waits_on or waiting:
            wait([*waiting, *self._keys.waits_on], INTERVAL)
        else:
            time.sleep(INTERVAL)

    def _look(self) -> None:
        """Read the file if it was saved. If the file is missing or unreadable, keep the results."""
        data = self._saves.changed()
        if gone := self._saves.gone:
            self._view = replace(
                self._view, notice=f"{gone} does not exist. Waiting for it to come back."
            )
        elif data is not None and (path := self._saves.path) is not None:
            try:
                self._view = self._view.read(reading(path, data, self._wanted))
            except (UnreadableError, TargetError) as error:
                self._view = replace(self._view, notice=f"{path.name} cannot be read: {error}.")

    def _collect(self) -> None:
        """Receive a finished result, cancel an outdated grading, and start the next one.

        The method first checks the file, so that it does not show a result for an outdated version.
        """
        if self._grading is not None:
            task = self._grading.task
            if self._view.tasks.get(task.answer.exercise) != task:
                self._grading.stop()
                self._grading = None
            elif (result := self._grading.wait(0)) is not None:
                self._grading = None
                pin = self._keys.are_read
                self._view = self._view.with_result(task, result, pin)
        if self._grading is None and (due := self._view.due) is not None:
            self._grading = Grading(due)

    def _key(self, key: str) -> bool:
        """Execute the command for a key. Return whether ``watch`` should continue."""
        match key:
            case "q":
                return False
            case "n" | "p":
                self._view = self._view.moved(1 if key == "n" else -1)
            case "l":
                self._view = replace(self._view, listed=not self._view.listed)
            case "h" if self._view.shown:
                self._view = replace(self._view, hint=_hint(self._view.shown), listed=False)
        return True


def _hint(exercise: str) -> str:
    given = hint(exercise)
    return str(replace(given, after=given.after.replace(f'call hint("{exercise}")', "press h")))
