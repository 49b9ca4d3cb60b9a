"""Grade a routine, which is a plain function: run it, check its results, run the trials.

As for Functions, a :class:`RoutineWitness` runs the answer, in this process or in a sandbox.
:class:`RoutineOrder` asks it until the first fault: first for its results on each sample, then for
the trials of the exercise.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from torch import Tensor
from torch.autograd import Function
from torch.utils._pytree import tree_map

from autograd_course.calls import as_tuple
from autograd_course.execution import (
    WHOLE,
    Inputs,
    Printed,
    Raised,
    is_unfinished,
    told,
    unfinished_part,
)
from autograd_course.grader.comparison import Source, difference, recognized
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.limits import Samples, first_fault, prepare, seconds_for
from autograd_course.grader.verdict import (
    CodeRaised,
    NothingHandedIn,
    ResultDiffers,
    RoutineAgrees,
    Unwritten,
    Verdict,
    WrongArguments,
    WrongKind,
)

Routine = Callable[..., Any]
_RESULT = Source("the result", "has")


def judge_routine(
    exercise: RoutineExercise, answer: Any, seed: int | None, printed: Printed
) -> Verdict:
    """Return the verdict on an answer, which should be a plain function."""
    if problem := routine_problem(exercise, answer):
        return problem
    prepare()  # before the clock starts: an import that is stopped halfway stays broken
    samples = exercise.samples(seed)
    verdict = RoutineOrder(exercise, LocalRoutine(exercise, answer, printed), samples).verdict()
    named = verdict.sample or (next(iter(samples), "") if verdict.status == "passed" else "")
    return replace(verdict, printed=printed.on(samples[named]) if named else printed.latest)


# --------------------------------------------------------------------------------------------------
# The order of the questions
# --------------------------------------------------------------------------------------------------


class RoutineWitness(Protocol):
    """Runs an answer and returns the results."""

    def called(self, sample: str, inputs: Inputs) -> Inputs | Raised:
        """Return the result or the exception of the function for the inputs of a sample."""

    def tried(self) -> Verdict | Raised | None:
        """Return the verdict of the first trial that fails, or its exception."""


@dataclass(frozen=True)
class RoutineOrder:
    """An exercise, the witness of an answer, and the inputs to use.

    ``timed`` says that the time limit applies here, and not in the witness.
    """

    exercise: RoutineExercise
    witness: RoutineWitness
    samples: Samples
    timed: bool = True

    def verdict(self) -> Verdict:
        """Return the verdict: the first fault, or none."""
        return (
            self.compared()
            or first_fault({"": ()}, lambda _: self._tried(), self._seconds)
            or passed(self.exercise)
        )

    def compared(self) -> Verdict | None:
        """Return the first fault in the results."""
        named = {name: (name, inputs) for name, inputs in self.samples.items()}
        return first_fault(named, lambda sample: self._called(*sample), self._seconds)

    @property
    def _seconds(self) -> float:
        return seconds_for(self.exercise) if self.timed else 0

    def _called(self, sample: str, inputs: Inputs) -> Verdict | None:
        """Compare the results of the answer with those of the reference, for the same inputs."""
        exercise, results = self.exercise, self.witness.called(sample, inputs)
        if isinstance(results, Raised):
            return _raised(results)
        expected = as_tuple(exercise.reference(*copied(inputs)))
        close = exercise.rtol, exercise.atol
        found = difference(results, expected, _RESULT, *close)
        if found is None:
            return None
        known = recognized(results, exercise.suspects, copied(inputs), *close)
        return Verdict(ResultDiffers(found, known))

    def _tried(self) -> Verdict | None:
        came = self.witness.tried()
        return _raised(came) if isinstance(came, Raised) else came


def _raised(came: Raised) -> Verdict:
    return Verdict(Unwritten(came.unwritten) if came.unwritten else CodeRaised(came.told))


def copied(inputs: Inputs) -> Inputs:
    """Return the inputs with copies of their tensors, which require grad as before."""

    def copy(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    copies: Inputs = tree_map(copy, inputs)
    return copies


def passed(exercise: RoutineExercise) -> Verdict:
    """Return the verdict on an answer without a fault, with the samples."""
    return Verdict(RoutineAgrees(exercise.constraints, tuple(exercise.samplers)))


# --------------------------------------------------------------------------------------------------
# The answer in this process
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LocalRoutine:
    """The answer itself, a function in this process, as a :class:`RoutineWitness`."""

    exercise: RoutineExercise
    answer: Routine
    printed: Printed = field(default_factory=Printed)

    def called(self, sample: str, inputs: Inputs) -> Inputs | Raised:
        """Return the result or the exception of the function for copies of the inputs."""
        try:
            with self.printed.during(inputs):
                returned = self.answer(*copied(inputs))
        except (Exception, SystemExit) as error:
            return _raised_by(error, self.answer)
        return _in_another(returned, self.exercise.container) or as_tuple(returned)

    def tried(self) -> Verdict | Raised | None:
        """Return the verdict of the first trial that fails, or its exception."""
        for trial in self.exercise.trials:
            try:
                with self.printed.during():
                    verdict = trial(self.answer)
            except (Exception, SystemExit) as error:
                return _raised_by(error, self.answer)
            if verdict:
                return verdict
        return None


def _raised_by(error: BaseException, answer: Routine) -> Raised:
    if not is_unfinished(error, answer):
        return Raised(told(error, answer))
    is_named = hasattr(answer, "__name__")  # an operator is not: one of its functions is a stub
    return Raised("", WHOLE if is_named else unfinished_part(error))


def _in_another(returned: Any, container: type | None) -> Raised | None:
    """Return the verdict on results in the wrong container."""
    if container is None or not isinstance(returned, Collection) or isinstance(returned, Tensor):
        return None
    if isinstance(returned, container):
        return None
    return Raised(
        f"the result is of type {type(returned).__name__}; this exercise asks for a "
        f"{container.__name__}."
    )


# --------------------------------------------------------------------------------------------------
# Is it a function at all, and can it be called as asked?
# --------------------------------------------------------------------------------------------------


def routine_problem(exercise: RoutineExercise, answer: Any) -> Verdict | None:
    """Return the verdict on an answer that is not a function, or ``None`` for a function."""
    if answer is None or answer is ...:
        return Verdict(NothingHandedIn(exercise.id, "function"))
    if isinstance(answer, type) and issubclass(answer, Function):
        return Verdict(WrongKind("Function class", answer.__name__, exercise.id))
    if not callable(answer):
        return Verdict(WrongKind("no function", type(answer).__name__, exercise.id))
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
        return Verdict(WrongArguments(WHOLE, f"({exercise.arguments})"))
    return None
