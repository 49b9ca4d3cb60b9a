"""Search for a change that corrects a wrong answer, and check the changed answer."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from typing import Any

import torch
from autograd_doctor import RULES, CannotDiagnoseError, Finding
from autograd_doctor.extension import TimeUp, time_limit
from autograd_doctor.formatting import sentence
from autograd_doctor.repair import Repair
from autograd_doctor.repair_search import search_repair

from autograd_course.grader.exercise import FunctionExercise, RoutineExercise
from autograd_course.grader.kinds.function import OF_GRADIENTS, FunctionOrder, LocalFunction
from autograd_course.grader.kinds.routine import LocalRoutine, RoutineOrder
from autograd_course.grader.verdict import Verdict

SECONDS = 1.0  # the time limit of a search, in seconds
OTHER_SEED = 20  # the seed for inputs that the search has not seen


def find_repair(exercise: Any, answer: Any, verdict: Verdict) -> Repair | None:
    """Search for a change that corrects an answer. Return ``None`` if none is found in time.

    Args:
        exercise: A :class:`FunctionExercise` or a :class:`RoutineExercise`. For any other exercise,
            the function returns ``None``.
        answer: The answer.
        verdict: The verdict on the wrong answer.
    """
    match exercise:
        case FunctionExercise():
            search: Callable[..., Repair | None] = _of_function
        case RoutineExercise() if not exercise.needs:  # building an edited program takes seconds
            search = _of_routine
        case _:
            return None
    sink = io.StringIO()
    with (
        suppress(TimeUp, CannotDiagnoseError),
        torch.inference_mode(False),
        redirect_stdout(sink),
        redirect_stderr(sink),
        time_limit(SECONDS),
    ):
        return search(exercise, answer, verdict)
    return None


def _of_function(exercise: FunctionExercise, answer: Any, verdict: Verdict) -> Repair | None:
    finding, others = verdict.finding, exercise.samples(OTHER_SEED)
    if finding is None:
        return None
    if finding.search is not None:
        repair = finding.search(others)
        return repair and _with_what_is_left(exercise, repair)
    samples = exercise.samples()
    wrong = samples.get(verdict.sample, next(iter(samples.values())))

    def order(changed: Any, samples: Mapping[str, Any]) -> FunctionOrder:
        return FunctionOrder(exercise, LocalFunction(exercise, changed), samples, timed=False)

    of_check = order(answer, samples).computed() is None  # an edit elsewhere would hide the mistake

    def is_right(changed: Any) -> bool:
        judged = order(changed, {"": wrong})
        return judged.verdict().status == "passed" if of_check else judged.computed() is None

    def passes(changed: Any) -> Repair | None:
        fault = order(changed, samples).computed() or order(changed, others).verdict()
        if fault.status == "passed":
            return Repair("", (), tuple(others), made=changed)
        rule = fault.finding.rule if fault.finding else ""
        forward = finding.rule == "forward-mismatch" and rule not in ("", finding.rule)
        forward = forward and not of_check
        left = fault.message
        return Repair("", (), (), finding.rule, left=left, made=changed) if forward else None

    return search_repair(answer, finding, is_right, passes)


def _with_what_is_left(exercise: FunctionExercise, repair: Repair) -> Repair | None:
    """Add a note to the repair if the repaired answer still breaks a constraint.

    Return ``None`` if the repaired answer has a wrong gradient on one of the exercise's samples.
    """
    if repair.left or repair.made is None:
        return repair
    witness = LocalFunction(exercise, repair.made)  # type: ignore[arg-type]  # a Function
    order = FunctionOrder(exercise, witness, exercise.samples(), timed=False)
    fault = order.verdict()
    if fault.status == "passed":
        return repair
    if fault.finding and RULES[fault.finding.rule].family in OF_GRADIENTS:
        try:
            constraint = order.checked()
        except Exception:  # the repaired answer raises an exception for the inputs of a check
            return None
        if constraint is None or constraint.message != fault.message:
            return None
        repair = replace(repair, kinds=())  # the author may not have intended this change
    return replace(repair, left=sentence(fault.message), right=(), checked_on=())


def _of_routine(exercise: RoutineExercise, answer: Any, verdict: Verdict) -> Repair | None:
    samples, others = exercise.samples(), exercise.samples(OTHER_SEED)

    def order(changed: Any, samples: Mapping[str, Any]) -> RoutineOrder:
        return RoutineOrder(exercise, LocalRoutine(exercise, changed), samples, timed=False)

    def is_right(changed: Any) -> bool:
        if verdict.sample not in samples:  # the results are right, but a trial failed
            return order(changed, samples).verdict().status == "passed"
        return order(changed, {"": samples[verdict.sample]}).compared() is None

    def passes(changed: Any) -> Repair | None:
        if order(changed, others).verdict().status != "passed":
            return None  # values that a trial rejects may be right by coincidence
        on = tuple(others) or ("every trial",)
        return Repair("", (), on, made=changed, holds="the result is right")

    found = Finding("forward-mismatch", "error", verdict.message)
    return search_repair(answer, found, is_right, passes)
