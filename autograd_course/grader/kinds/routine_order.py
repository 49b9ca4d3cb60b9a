"""The order of work on a routine: what is asked, of whoever can run it, and what follows from it.

As for Functions (:mod:`.order`), ``grade`` and the classroom share these rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from autograd_doctor.formatting import distinguish
from torch import Tensor
from torch.utils._pytree import tree_map

from autograd_course.grader.calls import as_tuple
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.comparison import difference, recognized
from autograd_course.grader.limits import Samples, first_fault, seconds_for
from autograd_course.grader.execution import Raised
from autograd_course.grader.raised import not_written
from autograd_course.grader.verdict import Verdict, raised_error, unfinished, wrong

Inputs = tuple[Any, ...]


class RoutineWitness(Protocol):
    """Who can run an answer, and tell what comes of it."""

    def called(self, sample: str, inputs: Inputs) -> Inputs | Raised:
        """Return what the function returns for the inputs of a sample, or how it raised."""

    def tried(self) -> Verdict | Raised | None:
        """Return what the first trial says that is not passed, or how it raised."""


@dataclass(frozen=True)
class RoutineOrder:
    """One exercise, one answer's witness, the inputs to ask about.

    ``timed``: the time that answering takes is limited here, not by the witness.
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
        """Return the first fault of what the answer returns."""
        named = {name: (name, inputs) for name, inputs in self.samples.items()}
        return first_fault(named, lambda sample: self._called(*sample), self._seconds)

    @property
    def _seconds(self) -> float:
        return seconds_for(self.exercise) if self.timed else 0

    def _called(self, sample: str, inputs: Inputs) -> Verdict | None:
        """Compare what the answer returns with what the reference does, for the same inputs."""
        exercise, results = self.exercise, self.witness.called(sample, inputs)
        if isinstance(results, Raised):
            return _raised(results)
        expected = as_tuple(exercise.reference(*copied(inputs)))
        close = exercise.rtol, exercise.atol
        found = difference(results, expected, "the result", *close)
        if found is None:
            return None
        known = recognized(results, exercise.suspects, copied(inputs), *close)
        return wrong(f"{found.message}{_at(found.evidence)} {known}".rstrip())

    def _tried(self) -> Verdict | None:
        came = self.witness.tried()
        return _raised(came) if isinstance(came, Raised) else came


def _raised(came: Raised) -> Verdict:
    if came.unwritten:
        return unfinished(not_written(came.unwritten))
    return raised_error(came.told)


def _at(evidence: Mapping[str, Any]) -> str:
    """Return the element that is farthest off, as `` At [1, 0] it is 2, should be 3.``."""
    if "index" not in evidence:
        return ""
    index = f"At {evidence['index']} it" if evidence["index"] else "It"
    actual, expected = distinguish(evidence["actual"], evidence["expected"])
    return f" {index} is {actual}, should be {expected}."


def copied(inputs: Inputs) -> Inputs:
    """Return the inputs with tensors of their own, which ask for a gradient as before."""

    def copy(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    copies: Inputs = tree_map(copy, inputs)
    return copies


def passed(exercise: RoutineExercise) -> Verdict:
    """Return the verdict on an answer without a fault: what was tried."""
    on = f" Tried on: {'; '.join(exercise.samplers)}." if exercise.samplers else ""
    right = (
        "its results agree with the reference's" if exercise.samplers else "it passes every trial"
    )
    bounds = f", and {exercise.bounds}" if exercise.bounds else ""
    return Verdict("passed", f"{right}{bounds}.{on}")
