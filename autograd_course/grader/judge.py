"""Judge one answer: from handing it in to the verdict, the first fault only."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.autograd import Function

from autograd_course.doctor import DoctorError, diagnose
from autograd_course.doctor.running.calls import first_line, prepare
from autograd_course.doctor.running.time_limit import VARIABLE, TimeUp, limit_in_seconds, time_limit
from autograd_course.doctor.world.guard import undisturbed
from autograd_course.grader.exercise import Exercise
from autograd_course.grader.passes import backward_problem, forward_problem
from autograd_course.grader.raised import place
from autograd_course.grader.submission import signature_problem, submission_problem
from autograd_course.grader.verdict import Verdict, failed, fault, unfinished, wrong

Samples = Mapping[str, tuple[Any, ...]]
Step = Callable[[tuple[Any, ...]], Verdict | None]


def judge(exercise: Exercise, answer: Any) -> Verdict:
    """Return the verdict on an answer; a fault of the grader itself is a verdict of its own.

    The random state, the default dtype, the grad mode and the warning filters are left as they
    were, and what the answer prints is dropped: it would be printed hundreds of times.
    """
    try:
        if problem := submission_problem(exercise, answer):
            return problem
        with _quiet_world():
            return _judge_function(exercise, answer)
    except TimeUp as stop:
        return _out_of_time(stop, answer)
    except DoctorError as error:
        return failed(f"the doctor could not examine this answer: {first_line(error)}")
    except Exception as error:
        return failed(f"{type(error).__name__} inside the grader: {first_line(error)}")


def _judge_function(exercise: Exercise, answer: type[Function]) -> Verdict:
    samples = exercise.samples()
    plainest = {"": next(iter(samples.values()))}
    return (
        _first(samples, lambda inputs: signature_problem(exercise, answer, inputs))
        or _run(exercise, answer, samples)
        or _diagnosed(exercise, answer, samples)
        or _first(plainest, lambda inputs: _checked(exercise, answer, inputs))
        or Verdict("passed", _told_checked(exercise))
    )


def _run(exercise: Exercise, answer: type[Function], samples: Samples) -> Verdict | None:
    """Run forward, then backward: is either unwritten, does one raise, is forward wrong?"""
    forward = _first(samples, lambda inputs: forward_problem(exercise, answer, inputs))
    if forward and not forward.finding:
        return _explained(exercise, answer, samples, forward)
    backward = _first(samples, lambda inputs: backward_problem(answer, inputs))
    if backward and backward.status == "not attempted":
        return unfinished(_backward_missing(forward))
    return forward or (backward and _explained(exercise, answer, samples, backward))


def _explained(
    exercise: Exercise, answer: type[Function], samples: Samples, raised: Verdict
) -> Verdict:
    """Return the doctor's verdict on code that raised, where a rule names the cause."""
    if raised.status == "not attempted":
        return raised
    with contextlib.suppress(DoctorError):
        return _diagnosed(exercise, answer, samples) or raised
    return raised


def _diagnosed(exercise: Exercise, answer: type[Function], samples: Samples) -> Verdict | None:
    prepare()
    return _first(samples, lambda inputs: _examined(exercise, answer, inputs))


def _examined(
    exercise: Exercise, answer: type[Function], inputs: tuple[Any, ...]
) -> Verdict | None:
    diagnosis = diagnose(
        answer,
        inputs,
        reference=exercise.reference,
        surrogate=exercise.surrogate,
        intentional=exercise.intentional,
    )
    faults = (f for f in diagnosis.findings if f.severity == "error" or f.rule in exercise.asked)
    return fault(next(faults, None))


def _checked(exercise: Exercise, answer: type[Function], inputs: tuple[Any, ...]) -> Verdict | None:
    faults = (check(answer, inputs) for check in exercise.checks)
    return fault(next(filter(None, faults), None))


def _first(samples: Samples, step: Step) -> Verdict | None:
    """Return the first verdict that a step gives on a sample, each within the time limit."""
    for name, inputs in samples.items():
        with time_limit(limit_in_seconds()):
            verdict = step(inputs)
        if verdict:
            return replace(verdict, sample=name)
    return None


@contextlib.contextmanager
def _quiet_world() -> Iterator[None]:
    sink = io.StringIO()
    with (
        torch.inference_mode(False),
        undisturbed(seed=0),
        contextlib.redirect_stdout(sink),
        contextlib.redirect_stderr(sink),
    ):
        yield


def _backward_missing(forward: Verdict | None) -> str:
    if forward is None:
        return "forward is right; backward is still to be written."
    return f"backward is still to be written, and {forward.message}"


def _out_of_time(stop: TimeUp, answer: Any) -> Verdict:
    """Blame the answer only where its own code was running when the time was up."""
    seconds = f"{limit_in_seconds():g} s"
    if where := place(stop, answer):
        return wrong(f"stopped after {seconds} in your code{where}: does a loop there never end?")
    return failed(f"grading took longer than {seconds}; set {VARIABLE} to more seconds.")


def _told_checked(exercise: Exercise) -> str:
    bounds = f", and {exercise.bounds}" if exercise.bounds else ""
    return (
        "forward, every gradient and its linearity in grad_output agree with the reference"
        f"{bounds}. Tried on: {'; '.join(exercise.samplers)}."
    )
