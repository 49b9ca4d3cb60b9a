"""Judge a plain function: does it run, does it return what it should, do the trials pass?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.autograd import Function
from torch.utils._pytree import tree_map

from autograd_course.doctor.comparing.numbers import told_apart
from autograd_course.doctor.running.calls import as_tuple, prepare
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.judging.differing import difference, recognized
from autograd_course.grader.judging.limits import first_fault, seconds_for
from autograd_course.grader.raised import is_unfinished, told, unfinished_part
from autograd_course.grader.verdict import Verdict, unfinished, wrong

Routine = Callable[..., Any]


def judged(exercise: RoutineExercise, answer: Any) -> Verdict:
    """Return the verdict on an answer, which should be a plain function."""
    return _submission_problem(exercise, answer) or _judged_routine(exercise, answer)


def _judged_routine(exercise: RoutineExercise, answer: Routine) -> Verdict:
    prepare()  # before the clock starts: an import that is stopped halfway stays broken
    seconds = seconds_for(exercise)
    return (
        first_fault(exercise.samples(), lambda inputs: _called(exercise, answer, inputs), seconds)
        or first_fault({"": ()}, lambda _: _tried(exercise, answer), seconds)
        or Verdict("passed", _told(exercise))
    )


def _submission_problem(exercise: RoutineExercise, answer: Any) -> Verdict | None:
    call = f'grade("{exercise.id}", your_function)'
    if answer is None or answer is ...:
        return unfinished(f"there is no answer yet: write the function, then {call}.")
    if isinstance(answer, type) and issubclass(answer, Function):
        return wrong(f"this is a Function class; a plain function is asked for: {call}.")
    if not callable(answer):
        return wrong(
            f"this is {type(answer).__name__}, not a function: {call}, without calling it."
        )
    return _signature_problem(exercise, answer)


def _signature_problem(exercise: RoutineExercise, answer: Routine) -> Verdict | None:
    try:
        signature = inspect.signature(answer)
        for inputs in exercise.samples().values():
            signature.bind(*inputs)
    except (TypeError, ValueError):
        return wrong(f"it does not take the arguments asked for: write ({exercise.arguments}).")
    return None


def _called(exercise: RoutineExercise, answer: Routine, inputs: tuple[Any, ...]) -> Verdict | None:
    """Call answer and reference on copies of their own; compare what they return."""
    try:
        results = as_tuple(answer(*_copied(inputs)))
    except (Exception, SystemExit) as error:
        return _raised(error, answer)
    expected = as_tuple(exercise.reference(*_copied(inputs)))
    found = difference(results, expected, "the result", exercise.rtol, exercise.atol)
    if found is None:
        return None
    known = recognized(results, exercise.suspects, _copied(inputs))
    return wrong(f"{found.message}{_at(found.evidence)} {known}".rstrip())


def _at(evidence: Mapping[str, Any]) -> str:
    """Return the element that is farthest off, as `` At [1, 0] it is 2, should be 3.``."""
    if "index" not in evidence:
        return ""
    index = f"At {evidence['index']} it" if evidence["index"] else "It"
    actual, expected = told_apart(evidence["actual"], evidence["expected"])
    return f" {index} is {actual}, should be {expected}."


def _tried(exercise: RoutineExercise, answer: Routine) -> Verdict | None:
    for trial in exercise.trials:
        try:
            verdict = trial(answer)
        except (Exception, SystemExit) as error:
            return _raised(error, answer)
        if verdict:
            return verdict
    return None


def _raised(error: BaseException, answer: Routine) -> Verdict:
    if is_unfinished(error, answer):
        name = getattr(answer, "__name__", "")
        part = "the function" if name else unfinished_part(error)  # of an operator's functions
        return unfinished(f"{part} is still to be written.")
    return wrong(told("it", error, answer))


def _copied(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the inputs with tensors of their own, which ask for a gradient as before."""

    def copy(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    copied: tuple[Any, ...] = tree_map(copy, inputs)
    return copied


def _told(exercise: RoutineExercise) -> str:
    on = f" Tried on: {'; '.join(exercise.samplers)}." if exercise.samplers else ""
    right = (
        "its results agree with the reference's" if exercise.samplers else "the trials are passed"
    )
    bounds = f", and {exercise.bounds}" if exercise.bounds else ""
    return f"{right}{bounds}.{on}"
