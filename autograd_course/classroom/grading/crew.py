"""Who does the work, as the one who hands it out sees it."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autograd_course.errors import CourseError

if TYPE_CHECKING:
    from autograd_course.classroom.grading.task import Task

# What to do where there are too few resources for the workers.
FEWER = "is there memory enough for so many? Go on with --resume and a smaller --jobs."
Judge = Callable[[str], str]  # a task → what is said of it, both as JSON
Opening = Callable[[], AbstractContextManager[Judge]]
# For each worker an opening, which holds what is that worker's until it has started.
Share = Callable[[], AbstractContextManager[Opening]]


class GradingError(CourseError, RuntimeError):
    """The run cannot go on; the message is one sentence. What was recorded is kept."""


class RefusedError(CourseError, RuntimeError):
    """A worker cannot judge anything where it is; the message says what it lacks."""


@dataclass(frozen=True)
class Outcome:
    """What a worker said of a task; nothing where it died of it."""

    task: Task
    said: dict[str, Any] | None


# Takes tasks as it has hands for them, and yields outcomes as they come, in any order. It never
# holds more than a few. Raises GradingError; closing the iterator ends all workers.
Crew = Callable[[Iterator["Task"]], Generator[Outcome, None, None]]


def read(answer: str) -> dict[str, Any]:
    """Return what a worker said. Raises GradingError where it refused."""
    said: dict[str, Any] = json.loads(answer)
    if "refused" in said:
        raise GradingError(str(said["refused"]))
    return said


def refusal(error: RefusedError) -> str:
    """Return what a worker says that cannot judge."""
    return json.dumps({"refused": str(error)})
