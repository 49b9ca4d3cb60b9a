"""The change that makes a wrong answer right: searched for, and verified by the exercise itself."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from autograd_doctor import CannotDiagnoseError, diagnose
from autograd_doctor.extension import TimeUp, repair_function, time_limit
from autograd_doctor.repair import Repair

from autograd_course.grader.exercise import FunctionExercise, RoutineExercise
from autograd_course.grader.judging import function, routine
from autograd_course.grader.judging.order import Order
from autograd_course.grader.judging.routine_order import RoutineOrder
from autograd_course.grader.verdict import Verdict

SECONDS = 1.0  # of computing
OTHER_SEED = 20  # of the inputs that the search has not seen


def find_repair(exercise: Any, answer: Any, verdict: Verdict) -> Repair | None:
    """Return a change that makes an answer right, ``None`` if none is found in time.

    Args:
        exercise: A :class:`FunctionExercise` or :class:`RoutineExercise`; others have no repair.
        answer: The answer.
        verdict: That on the answer, which is wrong.
    """
    match exercise:
        case FunctionExercise():
            search: Callable[..., Repair | None] = _of_function
        case RoutineExercise():
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
    finding = verdict.finding
    if finding is None:
        return None
    if finding.search is not None:
        repair = finding.repair
    elif finding.rule == "forward-mismatch":
        samples = exercise.samples()
        inputs = samples.get(verdict.sample, next(iter(samples.values())))
        repair = diagnose(answer, inputs, **function.declared(exercise)).repair
    else:
        return None
    if repair is None or repair.made is None:
        return None
    witness = function.Present(exercise, repair.made)  # type: ignore[arg-type]  # of a Function
    fault = Order(exercise, witness, exercise.samples(OTHER_SEED), timed=False).until_checks()
    if fault is None:
        return replace(repair, checked_on=tuple(exercise.samplers), removes="")
    rule = fault.finding.rule if fault.finding else ""
    return repair if repair.removes and rule and rule != repair.removes else None


def _of_routine(exercise: RoutineExercise, answer: Any, verdict: Verdict) -> Repair | None:
    samples = exercise.samples()
    wrong = {verdict.sample: samples[verdict.sample]} if verdict.sample in samples else samples

    def is_right(changed: Callable[..., Any]) -> bool:
        order = RoutineOrder(exercise, routine.Present(exercise, changed), wrong, timed=False)
        return order.compared() is None

    def passes(changed: Callable[..., Any]) -> Repair | None:
        others = exercise.samples(OTHER_SEED)
        order = RoutineOrder(exercise, routine.Present(exercise, changed), others, timed=False)
        if order.verdict().status != "passed":
            return None
        return Repair("", (), tuple(exercise.samplers) or ("every trial",), made=changed)

    return repair_function(answer, is_right, passes) if wrong else None


def with_search(exercise: Any, answer: Any, verdict: Verdict) -> Verdict:
    """Return a verdict that searches for the repair of a wrong answer when it is asked to."""
    if verdict.status != "wrong":
        return verdict
    return replace(verdict, search=partial(find_repair, exercise, answer, verdict))
