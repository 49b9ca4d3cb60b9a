"""An executor that runs worker processes on this machine. Each worker runs one task at a time.

If a worker dies, it loses only its current task, and a new worker retries this task. If the parent
process dies, each worker finishes its current task, ends its sandbox, and exits.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, Protocol

from autograd_classroom.grading.executor import (
    FEWER,
    GradingError,
    Opening,
    Outcome,
    RefusedError,
    Share,
    read,
    refusal,
)
from autograd_classroom.grading.ignore_sigint import ignore_sigint

if TYPE_CHECKING:
    from autograd_classroom.grading.task import Task

_METHODS = multiprocessing.get_all_start_methods()
_PROCESSES: Any = multiprocessing.get_context("forkserver" if "forkserver" in _METHODS else "spawn")
_LONGEST = 1800.0  # seconds for one task; the limits of the sandbox end any answer much earlier
_PATIENCE = 5.0  # seconds to wait for a worker to exit on its own


class Process(Protocol):
    """The parts of a ``multiprocessing`` process that this module uses."""

    def is_alive(self) -> bool:
        """Return whether the process is still running."""

    def join(self, timeout: float | None = None, /) -> None:
        """Wait for the process to end, for at most ``timeout`` seconds."""

    def terminate(self) -> None:
        """Ask the process to end."""

    def kill(self) -> None:
        """End the process immediately."""


Start = Callable[..., Process]  # calls its first argument with the remaining ones, in a new process


def started(target: Callable[..., None], *args: Any) -> Process:
    """Call ``target`` in a new Python process that inherits no state. Starting it takes seconds."""
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
        self.task, self.tries, self.until = task, tries, time.monotonic() + _LONGEST
        with contextlib.suppress(OSError):  # if the process has just died, heard() will report it
            self.connection.send_bytes(task.to_json().encode())

    def heard(self) -> dict[str, Any] | None:
        """Return the result of the current task, or ``None`` if the process has died."""
        try:
            return read(self.connection.recv_bytes().decode())
        except (EOFError, OSError):
            return None

    def end_if_late(self) -> None:
        """Kill the process if it has worked on its task for too long. The task is then lost."""
        if time.monotonic() >= self.until:
            self._process.kill()

    def stop(self) -> None:
        """End the process, even if it is still working on a task."""
        self._process.terminate()
        self.leave()

    def leave(self) -> None:
        """Close the connection, which makes the process exit. If it does not exit, kill it."""
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


_TRIES = 2
_LOST = 3  # after losing this many tasks in a row, assume that the tasks are not the cause
_DYING = f"the worker processes end before they have answered: {FEWER}"


@dataclass(frozen=True)
class Pool:
    """An :data:`Executor` with at most ``jobs`` processes, each of which opens its own judge.

    ``share`` can provide openings whose sandbox is already running, and ``start`` can provide a
    faster way to start processes.
    """

    jobs: int
    opening: Opening
    share: Share | None = None
    start: Start = started
    _idle: list[Worker] = field(default_factory=list)

    def __call__(self, tasks: Iterator[Task]) -> Generator[Outcome, None, None]:
        """Yield the outcomes; see :data:`Executor`. Keep idle workers for the next call."""
        first = tuple(islice(tasks, self.jobs))
        workers = _Workers(self.share or self._opened, self.start, self._idle)
        yield from workers.outcomes(first, tasks)

    def close(self) -> None:
        """Let all idle workers exit."""
        while self._idle:
            self._idle.pop().leave()

    def _opened(self) -> AbstractContextManager[Opening]:
        return nullcontext(self.opening)


@dataclass(frozen=True)
class _Workers:
    share: Share
    start: Start
    idle: list[Worker]

    def outcomes(
        self, first: Sequence[Task], tasks: Iterator[Task]
    ) -> Generator[Outcome, None, None]:
        busy: dict[Any, Worker] = {}
        lost = 0
        try:
            for task in first:
                self._begin(busy, task)
            while busy:
                ready = wait(list(busy), min(it.until for it in busy.values()) - time.monotonic())
                for worker in () if ready else list(busy.values()):
                    worker.end_if_late()
                for connection in ready:
                    outcome = self._turn(busy, busy[connection], tasks)
                    if outcome is not None:
                        lost = lost + 1 if outcome.said is None else 0
                        yield outcome
                    if lost == _LOST:
                        raise GradingError(_DYING)
        finally:
            for worker in busy.values():
                worker.stop()

    def _begin(self, busy: dict[Any, Worker], task: Task, tries: int = 1) -> None:
        while self.idle:
            worker = self.idle.pop()
            if worker.is_alive:
                worker.give(task, tries)
                break
            worker.leave()
        else:
            with self.share() as opening:
                worker = Worker(self.start, opening, task, tries)
        busy[worker.connection] = worker

    def _turn(
        self, busy: dict[Any, Worker], worker: Worker, tasks: Iterator[Task]
    ) -> Outcome | None:
        """Handle a worker's result or death, and give the next task to this worker or a new one."""
        said = worker.heard()
        if said is None:
            del busy[worker.connection]
            worker.stop()
            if worker.tries < _TRIES:
                self._begin(busy, worker.task, worker.tries + 1)
                return None
        outcome = Outcome(worker.task, said)
        following = next(tasks, None)
        if said is not None and following is not None:
            worker.give(following)
        elif following is not None:
            self._begin(busy, following)
        elif said is not None:
            del busy[worker.connection]
            self.idle.append(worker)
        return outcome
