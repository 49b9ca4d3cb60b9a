"""Each sample within the time limit, the first fault only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from autograd_doctor._execution.time_limit import limit_in_seconds, time_limit
from autograd_course.grader.exercise import Exercise, Sampled
from autograd_course.grader.verdict import Verdict

Samples = Mapping[str, tuple[Any, ...]]
Step = Callable[[tuple[Any, ...]], Verdict | None]


def first_fault(samples: Samples, step: Step, seconds: float | None = None) -> Verdict | None:
    """Return the first verdict that a step gives on a sample, each within the time limit."""
    for name, inputs in samples.items():
        with time_limit(limit_in_seconds() if seconds is None else seconds):
            verdict = step(inputs)
        if verdict:
            return replace(verdict, sample=name)
    return None


def seconds_for(exercise: Exercise) -> float:
    """Return how long one pass of an answer to this exercise may take; 0 is no limit.

    What takes long by its nature may take longer, but never longer than a limit of 0 seconds says.
    """
    usual = limit_in_seconds()
    own = exercise.seconds if isinstance(exercise, Sampled) else None
    return max(usual, own) if usual and own else usual
