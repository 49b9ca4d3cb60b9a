"""Judge one answer: from handing it in to the verdict, the first fault only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from autograd_doctor import CannotDiagnoseError
from autograd_doctor.extension import TimeUp, preserve_global_state

from autograd_course.errors import first_line
from autograd_course.grader.exercise import (
    Exercise,
    FunctionExercise,
    NamingExercise,
    RoutineExercise,
)
from autograd_course.grader.kinds import function, naming, routine
from autograd_course.grader.limits import VARIABLE, seconds_for
from autograd_course.grader.printing import Bounded, Printed
from autograd_course.grader.raised import place
from autograd_course.grader.repairing import with_search
from autograd_course.grader.verdict import Verdict, failed, wrong


def judge(exercise: Exercise, answer: Any, seed: int | None = None) -> Verdict:
    """Return the verdict on an answer; a fault of the grader itself is a verdict of its own.

    The random state, the default dtype, the grad mode and the warning filters are left as they
    were. The answer runs hundreds of times: the verdict holds what it printed in one forward and
    one backward pass, and the rest is dropped. ``seed`` draws other inputs than the exercise's
    usual ones.
    """
    printed = Printed()
    try:
        with quiet_world():
            verdict = _unless_missing(exercise, _judged(exercise, answer, seed, printed))
            return with_search(exercise, answer, verdict)
    except TimeUp as stop:
        return replace(_out_of_time(stop, exercise, answer), printed=printed.latest)
    except CannotDiagnoseError as error:
        return failed(f"`diagnose` could not examine this answer: {first_line(error)}")
    except Exception as error:
        return failed(f"{type(error).__name__} inside the grader: {first_line(error)}")


def _judged(exercise: Exercise, answer: Any, seed: int | None, printed: Printed) -> Verdict:
    match exercise:
        case FunctionExercise():
            return function.judged(exercise, answer, seed, printed)
        case RoutineExercise():
            return routine.judged(exercise, answer, seed, printed)
        case NamingExercise():
            return naming.judged(exercise, answer)
    raise TypeError(f"there is no grader for a {type(exercise).__name__}")


def _unless_missing(exercise: Exercise, verdict: Verdict) -> Verdict:
    """Blame no answer that raises where this machine lacks what it needs to run."""
    missing = exercise.needs() if exercise.needs and verdict.raised else None
    return failed(missing) if missing else verdict


@contextlib.contextmanager
def quiet_world() -> Iterator[None]:
    """Run a block as in a fresh process, and drop what it prints."""
    sink = Bounded(0)
    with (
        torch.inference_mode(False),
        preserve_global_state(seed=0),
        contextlib.redirect_stdout(sink),
        contextlib.redirect_stderr(sink),
    ):
        yield


def _out_of_time(stop: TimeUp, exercise: Exercise, answer: Any) -> Verdict:
    """Blame the answer only where its own code was running when the time was up."""
    seconds = f"{seconds_for(exercise):g} s"
    if where := place(stop, answer):
        return wrong(f"stopped after {seconds} in your code{where}. Is there an endless loop?")
    return failed(
        f"grading took longer than {seconds}. Set {VARIABLE} to a larger number of seconds."
    )
