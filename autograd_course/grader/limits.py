"""Run a grading step on each sample, with a time limit, until the first mistake."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

from autograd_doctor.extension import time_limit

from autograd_course.grader.exercise import Exercise, Sampled
from autograd_course.grader.verdict import Verdict

DEFAULT_SECONDS = 5.0
VARIABLE = "AUTOGRAD_COURSE_TIME_LIMIT"

Samples = Mapping[str, tuple[Any, ...]]
Step = Callable[[tuple[Any, ...]], Verdict | None]


def limit_in_seconds() -> float:
    """Return the value of ``AUTOGRAD_COURSE_TIME_LIMIT`` in seconds. 0 means no limit."""
    try:
        return max(0.0, float(os.environ.get(VARIABLE, DEFAULT_SECONDS)))
    except ValueError:
        return DEFAULT_SECONDS


def first_fault(samples: Samples, step: Step, seconds: float | None = None) -> Verdict | None:
    """Run a step on each sample with a time limit. Return the first verdict on a mistake."""
    for name, inputs in samples.items():
        with time_limit(limit_in_seconds() if seconds is None else seconds):
            verdict = step(inputs)
        if verdict:
            return replace(verdict, sample=name)
    return None


def before(samples: Samples, inputs: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Yield the samples before the one with these inputs."""
    yield from takewhile(lambda other: other is not inputs, samples.values())


def seconds_for(exercise: Exercise) -> float:
    """Return the time limit for one pass of an answer, in seconds. 0 means no limit.

    An exercise can declare a longer limit, which applies unless the user has turned limits off.
    """
    usual = limit_in_seconds()
    own = exercise.seconds if isinstance(exercise, Sampled) else None
    return max(usual, own) if usual and own else usual
