"""One answer in a process of its own, which can be ended at any time.

On Linux it is forked, so that PyTorch is imported already. Elsewhere it is a fresh Python: macOS
has ``fork``, and system libraries that do not survive it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from autograd_course.grader import CATALOGUE
from autograd_course.grader.limits import seconds_for
from autograd_course.practice.graded import Graded
from autograd_course.practice.reading import Task
from autograd_course.practice.running import broken, ended, graded

_FORKS = sys.platform == "linux"
if _FORKS:
    # vmap imports it on its first call: a second or two that each child would spend again.
    import torch._dynamo  # noqa: F401
_CONTEXT: Any = get_context("fork" if _FORKS else "spawn")
# The limit is for one pass, and soft: of code that no exception can stop, the process is ended
# after as many times the limit as an answer has passes.
_PASSES = 12


class Grading:
    """The grading of one answer, under way."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.connection, sending = _CONTEXT.Pipe(duplex=False)
        self._process = _CONTEXT.Process(target=_serve, args=(task, sending))
        self._process.start()
        sending.close()  # its only end is the child's: the end of the child ends the waiting
        self._seconds = _PASSES * seconds_for(CATALOGUE[task.answer.exercise])
        self._began = time.monotonic()

    def wait(self, seconds: float | None = None) -> Graded | None:
        """Return the result, or ``None`` where there is none after so many seconds."""
        left = self._left(seconds)
        if self.connection.poll(left):
            return self._received()
        if left is not None and self._left(None) == 0.0:
            self.stop()
            spent = f"{self._seconds:g} s"
            return ended(
                self.task,
                f"stopped after {spent}. Your code could not be interrupted, so its process was "
                "ended.",
            )
        return None

    def stop(self) -> None:
        """End the process, and all that it has started."""
        if self._process.is_alive():
            _kill(self._process)
        self._process.join()
        self.connection.close()

    def _left(self, seconds: float | None) -> float | None:
        if not self._seconds:
            return seconds
        left = max(0.0, self._began + self._seconds - time.monotonic())
        return left if seconds is None else min(left, seconds)

    def _received(self) -> Graded:
        try:
            received: Graded = self.connection.recv()
        except EOFError:
            self._process.join()
            received = ended(self.task, _end(self._process.exitcode))
        self.stop()
        return received


def _end(code: int | None) -> str:
    how = f"exit code {code}"
    if code is not None and code < 0:
        how = f"signal {signal.Signals(-code).name}"
    return f"your code ended its own process ({how})."


def _kill(process: Any) -> None:
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()  # where it has not yet become the leader of a group


def _serve(task: Task, sending: Connection) -> None:
    """Grade, and send the result; the terminal and its keys stay the parent's."""
    if hasattr(os, "setsid"):
        os.setsid()
    _without_terminal()
    try:
        result = graded(task)
    except Exception as error:
        result = broken(task, error)
    sending.send(result)
    sending.close()


def _without_terminal() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
