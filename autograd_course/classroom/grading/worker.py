"""A worker process of this machine, from either side: it is given tasks, and answers each.

It is a fork of one process that has imported what all workers need, and has nothing else in it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from autograd_course.classroom.grading.crew import Opening, RefusedError, read, refusal

_FORKED = "forkserver" in multiprocessing.get_all_start_methods()
_PROCESSES: Any = multiprocessing.get_context("forkserver" if _FORKED else "spawn")
_PATIENCE = 5.0  # seconds for a worker to end by itself
# What judging needs, the second because autograd imports it when it is first given a grad_output.
_NEEDED = ["autograd_course.classroom.grading.bench", "torch.fx.experimental.symbolic_shapes"]

if TYPE_CHECKING:
    from autograd_course.classroom.grading.task import Task


def prepare() -> None:
    """Start the process that workers are forked from, and do not wait for it."""
    if _FORKED:
        from multiprocessing import forkserver

        multiprocessing.set_forkserver_preload(_NEEDED)
        with _deaf():
            forkserver.ensure_running()


class Worker:
    """A process with a task, which it is given for the ``tries``-th time."""

    def __init__(self, opening: Opening, task: Task, tries: int) -> None:
        self.connection, theirs = _PROCESSES.Pipe()
        self._process = _PROCESSES.Process(target=_work, args=(theirs, opening))
        with _deaf():  # Ctrl-C is for the parent, also while Python starts up
            self._process.start()
        theirs.close()
        self.give(task, tries)

    def give(self, task: Task, tries: int = 1) -> None:
        """Hand over a task."""
        self.task, self.tries = task, tries
        with contextlib.suppress(OSError):  # it has died just now, and will be heard of
            self.connection.send_bytes(task.to_json().encode())

    def heard(self) -> dict[str, Any] | None:
        """Return what it says of its task, ``None`` where it has died."""
        try:
            return read(self.connection.recv_bytes().decode())
        except (EOFError, OSError):
            return None

    def stop(self) -> None:
        """End the process in the midst of what it does."""
        self._process.terminate()
        self.leave()

    def leave(self) -> None:
        """Let the process end by itself, as it does where there are no more tasks."""
        self.connection.close()
        self._process.join(_PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
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


def _work(connection: Connection, opening: Opening) -> None:
    """Be a worker: one answer for each task, until nobody asks."""
    with connection, contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            with opening() as judge:
                while True:
                    said = judge(connection.recv_bytes().decode())
                    connection.send_bytes(said.encode())
        except RefusedError as error:
            connection.send_bytes(refusal(error).encode())
