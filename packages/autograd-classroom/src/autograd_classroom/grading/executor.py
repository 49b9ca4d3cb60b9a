"""The interface between a run, which hands out tasks, and the executor, which does them."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autograd_course.errors import CourseError

if TYPE_CHECKING:
    from autograd_classroom.grading.task import Task

# The advice if the machine has too few resources for the workers.
FEWER = "is there memory enough for so many? Go on with --resume and a smaller --jobs."
Judge = Callable[[str], str]  # takes a task and returns the worker's result, both in JSON
Opening = Callable[[], AbstractContextManager[Judge]]
# Provides an opening for each worker, and keeps its resources until the worker has started.
Share = Callable[[], AbstractContextManager[Opening]]


class GradingError(CourseError, RuntimeError):
    """The run cannot continue; the message is one sentence. Recorded verdicts remain."""


class RefusedError(CourseError, RuntimeError):
    """A worker cannot judge anything in its environment; the message says what is missing."""


@dataclass(frozen=True)
class Outcome:
    """A worker's result for a task. It is ``None`` if the task killed the worker."""

    task: Task
    said: dict[str, Any] | None


# An executor takes a task when a worker is free, and yields outcomes in any order. It never holds
# more than a few tasks. Raises GradingError. Closing the iterator ends all workers.
Executor = Callable[[Iterator["Task"]], Generator[Outcome, None, None]]


def read(answer: str) -> dict[str, Any]:
    """Return the worker's result. Raises GradingError if the worker refused the task."""
    said: dict[str, Any] = json.loads(answer)
    if "refused" in said:
        raise GradingError(str(said["refused"]))
    return said


def refusal(error: RefusedError) -> str:
    """Return the worker's message that says why it cannot judge."""
    return json.dumps({"refused": str(error)})
