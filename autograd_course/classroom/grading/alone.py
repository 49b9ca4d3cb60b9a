"""A crew of this process alone: where memory is short, and one answer is all there is."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

from autograd_course.classroom.grading.crew import Opening, Outcome, read
from autograd_course.classroom.grading.task import Task


@dataclass(frozen=True)
class Alone:
    """A :data:`Crew` without workers; a judge that dies takes the run with it."""

    opening: Opening

    def __call__(self, tasks: Iterator[Task]) -> Generator[Outcome, None, None]:
        """Yield the outcomes, one task after the other. Raises RefusedError."""
        with self.opening() as judge:
            for task in tasks:
                yield Outcome(task, read(judge(task.to_json())))
