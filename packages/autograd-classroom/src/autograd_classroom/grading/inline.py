"""An executor that judges answers in this process.

It needs less memory than worker processes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from autograd_classroom.grading.executor import Opening, Outcome, read
from autograd_classroom.grading.task import Task


@dataclass(frozen=True)
class Inline:
    """An :data:`Executor` without workers. If its judge crashes, the run ends too."""

    opening: Opening

    def __call__(self, tasks: Iterator[Task]) -> Generator[Outcome, None, None]:
        """Run one task at a time and yield its outcome. Raises RefusedError."""
        with self.opening() as judge:
            for task in tasks:
                yield Outcome(task, read(judge(task.to_json())))
