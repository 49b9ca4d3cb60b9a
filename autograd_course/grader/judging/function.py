"""Judge a Function: does it run, is forward right, what does the doctor say of backward?"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from torch.autograd import Function

from autograd_course.doctor import DoctorError, Finding, diagnose
from autograd_course.doctor.running.calls import prepare
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.judging.differing import difference
from autograd_course.grader.judging.limits import Samples, first_fault, seconds_for
from autograd_course.grader.judging.passes import backward_problem, forward_problem, passed_back
from autograd_course.grader.judging.submission import signature_problem, submission_problem
from autograd_course.grader.verdict import Verdict, fault, unfinished


def judged(exercise: FunctionExercise, answer: Any) -> Verdict:
    """Return the verdict on an answer, which should be a subclass of ``Function``."""
    return submission_problem(exercise, answer) or _judged_class(exercise, answer)


def _judged_class(exercise: FunctionExercise, answer: type[Function]) -> Verdict:
    prepare()  # before the clock starts: an import that is stopped halfway stays broken
    samples = exercise.samples()
    plainest = {"": next(iter(samples.values()))}
    return (
        first_fault(samples, lambda inputs: signature_problem(exercise, answer, inputs))
        or _run(exercise, answer, samples)
        or _diagnosed(exercise, answer, samples)
        or first_fault(
            plainest, lambda inputs: _checked(exercise, answer, inputs), seconds_for(exercise)
        )
        or Verdict("passed", _told_checked(exercise))
    )


def _run(exercise: FunctionExercise, answer: type[Function], samples: Samples) -> Verdict | None:
    """Run forward, then backward: is either unwritten, does one raise, is forward wrong?"""
    forward = first_fault(samples, lambda inputs: forward_problem(exercise, answer, inputs))
    if forward and not forward.finding:
        return _explained(exercise, answer, samples, forward)
    backward = first_fault(samples, lambda inputs: backward_problem(answer, inputs))
    if backward and backward.status == "not attempted":
        return unfinished(_backward_missing(forward))
    return forward or (backward and _explained(exercise, answer, samples, backward))


def _explained(
    exercise: FunctionExercise, answer: type[Function], samples: Samples, raised: Verdict
) -> Verdict:
    """Return the doctor's verdict on code that raised, where a rule names the cause."""
    if raised.status == "not attempted":
        return raised
    with contextlib.suppress(DoctorError):
        return _diagnosed(exercise, answer, samples) or raised
    return raised


def _diagnosed(
    exercise: FunctionExercise, answer: type[Function], samples: Samples
) -> Verdict | None:
    seconds = seconds_for(exercise)
    return first_fault(samples, lambda inputs: _examined(exercise, answer, inputs), seconds)


def _examined(
    exercise: FunctionExercise, answer: type[Function], inputs: tuple[Any, ...]
) -> Verdict | None:
    diagnosis = diagnose(
        answer,
        inputs,
        reference=exercise.reference,
        surrogate=exercise.surrogate,
        intentional=exercise.intentional,
        double_backward=exercise.double_backward,
    )
    faults = (f for f in diagnosis.findings if f.severity == "error" or f.rule in exercise.asked)
    found = next(faults, None)
    return fault(found and _recognized(exercise, answer, inputs, found))


def _recognized(
    exercise: FunctionExercise, answer: type[Function], inputs: tuple[Any, ...], found: Finding
) -> Finding:
    """Return the finding, with the hint of the suspect whose gradients the answer has.

    Where the answer has the right ones, a suspect that has them too says nothing.
    """
    gradients = passed_back(answer.apply, inputs) if exercise.gradient_suspects else ()
    truth = exercise.surrogate or exercise.reference
    if not gradients or difference(gradients, passed_back(truth, inputs)) is None:
        return found
    for sentence, suspect in exercise.gradient_suspects.items():
        if difference(gradients, passed_back(suspect, inputs)) is None:
            return replace(found, hint=sentence)
    return found


def _checked(
    exercise: FunctionExercise, answer: type[Function], inputs: tuple[Any, ...]
) -> Verdict | None:
    faults = (check(answer, inputs) for check in exercise.checks)
    return fault(next(filter(None, faults), None))


def _backward_missing(forward: Verdict | None) -> str:
    if forward is None:
        return "forward is right; backward is still to be written."
    return f"backward is still to be written, and {forward.message}"


def _told_checked(exercise: FunctionExercise) -> str:
    bounds = f", and {exercise.bounds}" if exercise.bounds else ""
    truth = "the declared surrogate" if exercise.surrogate else "the reference"
    forward = " agrees with the reference;" if exercise.surrogate else ","
    second = ", also a second time," if exercise.double_backward else ""
    return (
        f"forward{forward} every gradient and its linearity in grad_output agree{second} with "
        f"{truth}{bounds}. Tried on: {'; '.join(exercise.samplers)}."
    )
