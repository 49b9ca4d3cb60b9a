"""An executor that consists only of this process. It needs little memory, for a single answer."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from autograd_classroom.grading.executor import Opening, Outcome, read
from autograd_classroom.grading.task import Task


@dataclass(frozen=True)
class Inline:
    """A :data:`Executor` without workers. If its judge dies, the run ends too."""

    opening: Opening

    def __call__(self, tasks: Iterator[Task]) -> Generator[Outcome, None, None]:
        """Yield the outcomes, one task at a time. Raises RefusedError."""
        with self.opening() as judge:
            for task in tasks:
                yield Outcome(task, read(judge(task.to_json())))
