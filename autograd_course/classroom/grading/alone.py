"""A crew that consists of this process: for little memory and a single answer."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from autograd_course.classroom.grading.crew import Opening, Outcome, read
from autograd_course.classroom.grading.task import Task


@dataclass(frozen=True)
class Alone:
    """A :data:`Crew` without workers. If a judge dies, the run ends with it."""

    opening: Opening

    def __call__(self, tasks: Iterator[Task]) -> Generator[Outcome, None, None]:
        """Yield the outcomes, one task after the other. Raises RefusedError."""
        with self.opening() as judge:
            for task in tasks:
                yield Outcome(task, read(judge(task.to_json())))
