"""A worker process of this machine, from either side: it is given tasks, and answers each."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Protocol

from autograd_course.classroom.grading.crew import Opening, RefusedError, read, refusal
from autograd_course.classroom.grading.deaf import deaf

_METHODS = multiprocessing.get_all_start_methods()
_PROCESSES: Any = multiprocessing.get_context("forkserver" if "forkserver" in _METHODS else "spawn")
_PATIENCE = 5.0  # seconds for a worker to end by itself

if TYPE_CHECKING:
    from autograd_course.classroom.grading.task import Task


class Process(Protocol):
    """A process, as ``multiprocessing`` has it."""

    def is_alive(self) -> bool:
        """Whether it has not ended."""

    def join(self, timeout: float | None = None, /) -> None:
        """Wait until it ends, or for some seconds."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it."""


Start = Callable[..., Process]  # starts a process that calls its first argument with the others


def started(target: Callable[..., None], *args: Any) -> Process:
    """Start a process that imports what it needs, which takes seconds, and has nothing else."""
    process: Process = _PROCESSES.Process(target=target, args=args)
    with deaf():
        process.start()  # type: ignore[attr-defined]
    return process


class Worker:
    """A process with a task, which it is given for the ``tries``-th time."""

    def __init__(self, start: Start, opening: Opening, task: Task, tries: int) -> None:
        self.connection, theirs = multiprocessing.Pipe()
        with theirs:
            self._process = start(_work, theirs, opening)
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
