"""Judge a plain function: does it run, does it return what it should, do the trials pass?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.calls import as_tuple
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.limits import prepare
from autograd_course.grader.execution import Raised
from autograd_course.grader.printing import Printed
from autograd_course.grader.kinds.routine_order import Inputs, RoutineOrder, copied
from autograd_course.grader.raised import is_unfinished, told, unfinished_part
from autograd_course.grader.verdict import Verdict, unfinished, wrong

Routine = Callable[..., Any]


def judged(exercise: RoutineExercise, answer: Any, seed: int | None, printed: Printed) -> Verdict:
    """Return the verdict on an answer, which should be a plain function."""
    if problem := routine_problem(exercise, answer):
        return problem
    prepare()  # before the clock starts: an import that is stopped halfway stays broken
    samples = exercise.samples(seed)
    verdict = RoutineOrder(exercise, Present(exercise, answer, printed), samples).verdict()
    named = verdict.sample or (next(iter(samples), "") if verdict.status == "passed" else "")
    return replace(verdict, printed=printed.on(samples[named]) if named else printed.latest)


@dataclass(frozen=True)
class Present:
    """The answer itself, a function in this process, as a ``RoutineWitness``."""

    exercise: RoutineExercise
    answer: Routine
    printed: Printed = field(default_factory=Printed)

    def called(self, sample: str, inputs: Inputs) -> Inputs | Raised:
        """Return what the function returns for copies of the inputs, or how it raised."""
        try:
            with self.printed.during(inputs):
                returned = self.answer(*copied(inputs))
        except (Exception, SystemExit) as error:
            return _raised(error, self.answer)
        return _in_another(returned, self.exercise.container) or as_tuple(returned)

    def tried(self) -> Verdict | Raised | None:
        """Return what the first trial says that is not passed, or how it raised."""
        for trial in self.exercise.trials:
            try:
                with self.printed.during():
                    verdict = trial(self.answer)
            except (Exception, SystemExit) as error:
                return _raised(error, self.answer)
            if verdict:
                return verdict
        return None


def routine_problem(exercise: RoutineExercise, answer: Any) -> Verdict | None:
    """Return one sentence on an answer that is no function, or ``None`` where it is one."""
    call = f'grade("{exercise.id}", your_function)'
    if answer is None or answer is ...:
        return unfinished(f"there is no answer yet: write the function, then {call}.")
    if isinstance(answer, type) and issubclass(answer, Function):
        return wrong(f"this is a Function class; this exercise asks for a plain function: {call}.")
    if not callable(answer):
        return wrong(
            f"this is {type(answer).__name__}, not a function: {call}, without calling it."
        )
    return _signature_problem(exercise, answer)


def _signature_problem(exercise: RoutineExercise, answer: Routine) -> Verdict | None:
    try:
        signature = inspect.signature(answer)
    except ValueError:  # a function of C, as apply is from PyTorch 2.14 on: its call will tell
        return None
    try:
        for inputs in exercise.samples().values():
            signature.bind(*inputs)
    except TypeError:
        return wrong(
            f"the function does not take the arguments of this exercise: "
            f"write ({exercise.arguments})."
        )
    return None


def _in_another(returned: Any, container: type | None) -> Raised | None:
    """Say that results come in another container than the one that the exercise asks for."""
    if container is None or not isinstance(returned, Collection) or isinstance(returned, Tensor):
        return None
    if isinstance(returned, container):
        return None
    return Raised(
        f"the result is of type {type(returned).__name__}; this exercise asks for a "
        f"{container.__name__}."
    )


def _raised(error: BaseException, answer: Routine) -> Raised:
    if not is_unfinished(error, answer):
        return Raised(told("it", error, answer))
    name = getattr(answer, "__name__", "")
    part = "the function" if name else unfinished_part(error)  # of an operator's functions
    return Raised("", part)
