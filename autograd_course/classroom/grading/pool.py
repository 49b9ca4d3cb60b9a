"""The crew on this machine: worker processes, each with one task at a time.

A worker that dies takes only its own task with it, which a new worker tries once more. Where the
parent dies, a worker hears of it when it has done its task, and ends; its sandbox ends with it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from autograd_course.classroom.grading.crew import (
    GradingError,
    Opening,
    Outcome,
    RefusedError,
    read,
    refusal,
)

_SPAWN = multiprocessing.get_context("spawn")
_TRIES = 2
_LOST = 3  # tasks one after the other: then it is no task's fault
_PATIENCE = 5.0  # seconds for a worker to end by itself
_DYING = (
    "the worker processes end before they have answered: is there memory enough for so many? "
    "Go on with --resume and a smaller --jobs."
)

if TYPE_CHECKING:
    from autograd_course.classroom.grading.task import Task


@dataclass(frozen=True)
class Pool:
    """A :data:`Crew` of at most ``jobs`` processes; each opens a judge of its own."""

    jobs: int
    opening: Opening

    def __call__(self, tasks: Iterator[Task]) -> Generator[Outcome, None, None]:
        """Yield outcomes; see :data:`Crew`."""
        busy: dict[Any, _Worker] = {}
        lost = 0
        try:
            for task in islice(tasks, self.jobs):
                self._begin(busy, task)
            while busy:
                for connection in wait(list(busy)):
                    outcome = self._turn(busy, busy[connection], tasks)
                    if outcome is not None:
                        lost = lost + 1 if outcome.said is None else 0
                        yield outcome
                    if lost == _LOST:
                        raise GradingError(_DYING)
        finally:
            for worker in busy.values():
                worker.stop()

    def _begin(self, busy: dict[Any, _Worker], task: Task, tries: int = 1) -> None:
        worker = _Worker(self.opening, task, tries)
        busy[worker.connection] = worker

    def _turn(
        self, busy: dict[Any, _Worker], worker: _Worker, tasks: Iterator[Task]
    ) -> Outcome | None:
        """Take what came from a worker, or its end, and see that there is another task for it."""
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
            worker.leave()
        return outcome


class _Worker:
    """A process with a task, which it is given for the ``tries``-th time."""

    def __init__(self, opening: Opening, task: Task, tries: int) -> None:
        self.connection, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_work, args=(theirs, opening))
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
