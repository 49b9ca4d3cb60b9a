"""The interface between a run, which supplies tasks, and an executor, which performs them.

:class:`Inline` is the simplest executor. It judges in this process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autograd_classroom.grading.task import Task
from autograd_course.errors import CourseError

if TYPE_CHECKING:
    from autograd_classroom.grading.task import Task

# Advice for users whose machine has too few resources for the workers.
FEWER = "is there memory enough for so many? Go on with --resume and a smaller --jobs."
Judge = Callable[[str], str]  # takes a task and returns the worker's result, both as JSON
Opening = Callable[[], AbstractContextManager[Judge]]
# Provides an Opening for each worker, and keeps its resources until the worker has started.
Share = Callable[[], AbstractContextManager[Opening]]


class GradingError(CourseError, RuntimeError):
    """Raised when the run cannot continue.

    The message is a single sentence. The gradebook keeps all verdicts recorded so far.
    """


class RefusedError(CourseError, RuntimeError):
    """Raised when a worker's environment lacks something that the judge needs.

    The message names what is missing.
    """


@dataclass(frozen=True)
class Outcome:
    """The result of a task. ``said`` is ``None`` if the task killed the worker."""

    task: Task
    said: dict[str, Any] | None


# An executor takes a task when a worker is free, and yields outcomes in any order. It never holds
# more than a few tasks at a time. It can raise GradingError. Closing its iterator ends all workers.
Executor = Callable[[Iterator["Task"]], Generator[Outcome, None, None]]


def read(answer: str) -> dict[str, Any]:
    """Parse a worker's reply. Raises GradingError if the worker refused the task."""
    said: dict[str, Any] = json.loads(answer)
    if "refused" in said:
        raise GradingError(str(said["refused"]))
    return said


def refusal(error: RefusedError) -> str:
    """Build a worker's reply that explains why the worker cannot judge."""
    return json.dumps({"refused": str(error)})


@dataclass(frozen=True)
class Inline:
    """An :data:`Executor` without workers. If its judge crashes, the run ends too."""

    opening: Opening

    def __call__(self, tasks: Iterator[Task]) -> Generator[Outcome, None, None]:
        """Run one task at a time and yield its outcome. Raises RefusedError."""
        with self.opening() as judge:
            for task in tasks:
                yield Outcome(task, read(judge(task.to_json())))
