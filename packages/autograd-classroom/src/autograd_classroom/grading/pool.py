"""An executor that runs worker processes on this machine, each with one task at a time.

If a worker dies, only its current task is lost, and a new worker retries this task. If the parent
process dies, each worker finishes its current task. The worker and its sandbox then end.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from autograd_classroom.grading.executor import (
    FEWER,
    GradingError,
    Opening,
    Outcome,
    Share,
)
from autograd_classroom.grading.worker import Start, Worker, started

_TRIES = 2
_LOST = 3  # after so many lost tasks in a row, the tasks are not the cause
_DYING = f"the worker processes end before they have answered: {FEWER}"

if TYPE_CHECKING:
    from autograd_classroom.grading.task import Task


@dataclass(frozen=True)
class Pool:
    """An :data:`Executor` with at most ``jobs`` processes, each of which opens its own judge.

    ``share`` can provide openings whose sandbox is already running. ``start`` can provide a faster
    way to start a process.
    """

    jobs: int
    opening: Opening
    share: Share | None = None
    start: Start = started
    _idle: list[Worker] = field(default_factory=list)

    def __call__(self, tasks: Iterator[Task]) -> Generator[Outcome, None, None]:
        """Yield the outcomes; see :data:`Executor`. Workers that finish wait for the next call."""
        first = tuple(islice(tasks, self.jobs))
        workers = _Workers(self.share or self._opened, self.start, self._idle)
        yield from workers.outcomes(first, tasks)

    def close(self) -> None:
        """Let all waiting workers end."""
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
        """Handle a worker's result or death. Give the next task to this worker or to a new one."""
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
