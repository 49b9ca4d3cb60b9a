"""Grade a routine, which is a plain function: run it, check its results, and run the trials.

As for Functions, a witness (:class:`RoutineWitness`) runs the answer in this process or in a
sandbox. :class:`RoutineOrder` asks the witness for the results on each sample and then runs the
exercise's trials. It stops at the first mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from autograd_course.calls import as_tuple
from autograd_course.execution import (
    WHOLE,
    Inputs,
    Printed,
    Raised,
    copied,
    prepare,
    raised_by,
    run_routine,
    told,
)
from autograd_course.grader.comparison import Source, difference, recognized
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.limits import Samples, before, first_fault, seconds_for
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
from autograd_course.submitted import (
    Submitted,
    other_container,
    routine_takes,
    submitted_routine,
)

Routine = Callable[..., Any]
_RESULT = Source("the result", "has")


def judge_routine(
    exercise: RoutineExercise, answer: Any, seed: int | None, printed: Printed
) -> Verdict:
    """Return the verdict on an answer, which should be a plain function."""
    submitted = submitted_routine(answer)
    takes = submitted.kind != "right" or routine_takes(answer, argument_counts(exercise))
    if problem := routine_problem(exercise, submitted, takes=takes):
        return problem
    prepare()  # early, because a timeout during an import leaves a broken module
    samples = exercise.samples(seed)
    verdict = RoutineOrder(exercise, LocalRoutine(exercise, answer, printed), samples).verdict()
    named = verdict.sample or (next(iter(samples), "") if verdict.status == "passed" else "")
    return replace(verdict, printed=printed.on(samples[named]) if named else printed.latest)


# --------------------------------------------------------------------------------------------------
# The order of the questions
# --------------------------------------------------------------------------------------------------


class RoutineWitness(Protocol):
    """An object that runs an answer and reports the results to the grader."""

    def called(self, sample: str, inputs: Inputs) -> Inputs | Raised:
        """Call the function with a sample's inputs and return its result or its exception."""

    def tried(self) -> Verdict | Raised | None:
        """Run the trials and return the first verdict on a mistake, or an exception."""


@dataclass(frozen=True)
class RoutineOrder:
    """The steps that grade one answer. A witness runs the answer on the exercise's samples.

    ``timed`` says whether the time limit applies in this process instead of in the witness.
    """

    exercise: RoutineExercise
    witness: RoutineWitness
    samples: Samples
    timed: bool = True

    def verdict(self) -> Verdict:
        """Return the verdict on the answer. It names the first mistake, if any."""
        return (
            self.compared()
            or first_fault({"": ()}, lambda _: self._tried(), self._seconds)
            or passed(self.exercise)
        )

    def compared(self) -> Verdict | None:
        """Return a verdict on the first mistake in the results."""
        named = {name: (name, inputs) for name, inputs in self.samples.items()}
        return first_fault(named, lambda sample: self._called(*sample), self._seconds)

    @property
    def _seconds(self) -> float:
        return seconds_for(self.exercise) if self.timed else 0

    def _called(self, sample: str, inputs: Inputs) -> Verdict | None:
        """Compare the answer's results with the reference's results for the same inputs."""
        exercise, results = self.exercise, self.witness.called(sample, inputs)
        if isinstance(results, Raised):
            return _raised(results, self._known_raised(results, inputs))
        expected = as_tuple(exercise.reference(*copied(inputs)))
        close = exercise.rtol, exercise.atol
        found = difference(results, expected, _RESULT, *close)
        if found is None:
            return None
        earlier = [*self._earlier(inputs)]
        known = recognized(results, exercise.suspects, copied(inputs), *close, earlier)
        return Verdict(ResultDiffers(found, known))

    def _earlier(self, inputs: Inputs) -> Iterator[tuple[Inputs, Inputs]]:
        """Yield the earlier samples, each with the right results."""
        for other in before(self.samples, inputs):
            yield copied(other), as_tuple(self.exercise.reference(*copied(other)))

    def _known_raised(self, came: Raised, inputs: Inputs) -> str:
        """Return the sentence about the first suspect that raises the same exception.

        The answer was right on the earlier samples, so the suspect must be right on them too.
        """
        exercise = self.exercise
        for sentence, suspect in exercise.raising.items():
            if came.told.startswith(_beginning(suspect, inputs)) and all(
                _is_right(suspect, other, right, exercise) for other, right in self._earlier(inputs)
            ):
                return sentence
        return ""

    def _tried(self) -> Verdict | None:
        came = self.witness.tried()
        return _raised(came) if isinstance(came, Raised) else came


def _raised(came: Raised, known: str = "") -> Verdict:
    if came.unwritten:
        return Verdict(Unwritten(came.unwritten))
    return Verdict(CodeRaised(came.told, known=known))


def _beginning(suspect: Routine, inputs: Inputs) -> str:
    """Return the beginning of a report about the suspect's exception."""
    try:
        suspect(*copied(inputs))
    except Exception as error:
        return told(error, suspect).partition(" (line ")[0].rstrip(".")
    return "\0"  # text that no report contains


def _is_right(suspect: Routine, inputs: Inputs, right: Inputs, exercise: RoutineExercise) -> bool:
    try:
        results = as_tuple(suspect(*copied(inputs)))
    except Exception:
        return False
    return difference(results, right, rtol=exercise.rtol, atol=exercise.atol) is None


def passed(exercise: RoutineExercise) -> Verdict:
    """Return the verdict on an answer without mistakes."""
    return Verdict(RoutineAgrees(exercise.constraints, tuple(exercise.samplers)))


# --------------------------------------------------------------------------------------------------
# The answer in this process
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LocalRoutine:
    """A :class:`RoutineWitness` of an answer that is a function in this process."""

    exercise: RoutineExercise
    answer: Routine
    printed: Printed = field(default_factory=Printed)

    def called(self, sample: str, inputs: Inputs) -> Inputs | Raised:
        """Call the function with copies of the inputs and return its result or its exception."""
        with self.printed.during(inputs):
            returned = run_routine(self.answer, inputs)
        if isinstance(returned, Raised):
            return returned
        container = self.exercise.container.__name__ if self.exercise.container else ""
        other = other_container(returned, container)
        return other_container_raised(other, self.exercise) or as_tuple(returned)

    def tried(self) -> Verdict | Raised | None:
        """Run the trials and return the first verdict on a mistake, or an exception."""
        for trial in self.exercise.trials:
            try:
                with self.printed.during():
                    verdict = trial(self.answer)
            except (Exception, SystemExit) as error:
                return raised_by(error, self.answer)
            if verdict:
                return verdict
        return None


def other_container_raised(name: str, exercise: RoutineExercise) -> Raised | None:
    """Return an error if the results have the wrong container type. Otherwise return ``None``."""
    if not name or exercise.container is None:
        return None
    return Raised(
        f"the result is of type {name}; this exercise asks for a {exercise.container.__name__}."
    )


# --------------------------------------------------------------------------------------------------
# Is it a function, and can it be called as required?
# --------------------------------------------------------------------------------------------------


def routine_problem(
    exercise: RoutineExercise, submitted: Submitted, *, takes: bool
) -> Verdict | None:
    """Return a verdict if the answer is not a function or does not take the required arguments."""
    match submitted.kind:
        case "right":
            arguments = WrongArguments(WHOLE, f"({exercise.arguments})")
            return None if takes else Verdict(arguments)
        case "nothing":
            return Verdict(NothingHandedIn(exercise.id, "function"))
        case "base class":
            raise ValueError("a base class is not a routine")
    return Verdict(WrongKind(submitted.kind, submitted.name, exercise.id))


def argument_counts(exercise: RoutineExercise) -> list[int]:
    """Return the number of arguments in each sample."""
    return [len(inputs) for inputs in exercise.samples().values()]
