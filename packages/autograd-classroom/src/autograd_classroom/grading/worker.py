"""A worker process on this machine, and the object that sends tasks to it."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Protocol

from autograd_classroom.grading.executor import Opening, RefusedError, read, refusal
from autograd_classroom.grading.ignore_sigint import ignore_sigint

_METHODS = multiprocessing.get_all_start_methods()
_PROCESSES: Any = multiprocessing.get_context("forkserver" if "forkserver" in _METHODS else "spawn")
_PATIENCE = 5.0  # seconds to wait for a worker to exit by itself

if TYPE_CHECKING:
    from autograd_classroom.grading.task import Task


class Process(Protocol):
    """The parts of a ``multiprocessing`` process that this module uses."""

    def is_alive(self) -> bool:
        """Whether the process is still running."""

    def join(self, timeout: float | None = None, /) -> None:
        """Wait for the process to end, for at most ``timeout`` seconds."""

    def terminate(self) -> None:
        """Ask the process to end."""

    def kill(self) -> None:
        """End the process immediately."""


Start = Callable[..., Process]  # calls its first argument with the others, in a new process


def started(target: Callable[..., None], *args: Any) -> Process:
    """Call ``target`` in a new Python process that inherits no state. Its imports take seconds."""
    process: Process = _PROCESSES.Process(target=target, args=args)
    with ignore_sigint():
        process.start()  # type: ignore[attr-defined]
    return process


class Worker:
    """A worker process and its current task. ``tries`` counts the attempts at this task."""

    def __init__(self, start: Start, opening: Opening, task: Task, tries: int) -> None:
        self.connection, theirs = multiprocessing.Pipe()
        with theirs:
            self._process = start(_work, theirs, opening)
        self.give(task, tries)

    @property
    def is_alive(self) -> bool:
        """Whether the process is still running."""
        return self._process.is_alive()

    def give(self, task: Task, tries: int = 1) -> None:
        """Send a task to the process."""
        self.task, self.tries = task, tries
        with contextlib.suppress(OSError):  # if the process has just died, heard() will report it
            self.connection.send_bytes(task.to_json().encode())

    def heard(self) -> dict[str, Any] | None:
        """Return the result of the current task, or ``None`` if the process has died."""
        try:
            return read(self.connection.recv_bytes().decode())
        except (EOFError, OSError):
            return None

    def stop(self) -> None:
        """End the process, even if it is still working on a task."""
        self._process.terminate()
        self.leave()

    def leave(self) -> None:
        """Close the connection, so that the process ends by itself. Kill it if it does not end."""
        self.connection.close()
        self._process.join(_PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _work(connection: Connection, opening: Opening) -> None:
    """Judge one task at a time until the other side closes the connection."""
    with connection, contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            with opening() as judge:
                while True:
                    said = judge(connection.recv_bytes().decode())
                    connection.send_bytes(said.encode())
        except RefusedError as error:
            connection.send_bytes(refusal(error).encode())
