"""A routine that runs in the sandbox, as the witness whom the judge asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autograd_course.classroom.judging import seeds
from autograd_course.classroom.judging.asked import Asked, UnansweredError, raised, returned, text
from autograd_course.execution import Inputs, Raised
from autograd_course.grader.verdict import (
    GraderFailedBecause,
    NotAttemptedBecause,
    Reason,
    Verdict,
    WrongBecause,
)

# The verdict of a trial is the child's word, and so is its sentence.
_SAID: dict[str, Callable[[str], Reason]] = {
    each.status: each for each in (WrongBecause, NotAttemptedBecause, GraderFailedBecause)
}


@dataclass(frozen=True)
class RemoteRoutine:
    """The answer in a sandbox's child, as a ``RoutineWitness``.

    A sample is drawn on both sides, because a model or a function does not travel. The child is
    told the seed of this one sample, which tells nothing of ``secret``. What comes back is compared
    with values made here.
    """

    asked: Asked
    secret: int

    def called(self, sample: str, inputs: Inputs) -> Inputs | Raised:
        """Return what the function returns for the inputs of a sample, or how it raised."""
        seed = seeds.of_sample(self.secret, sample)
        came = self.asked.ask({"ask": "call", "sample": sample, "seed": seed})
        return raised(came) or returned(came)

    def tried(self) -> Verdict | Raised | None:
        """Return what the first trial says that is not passed: the child's word."""
        came = self.asked.ask({"ask": "try"})
        if (problem := raised(came)) is not None or "status" not in came.said:
            return problem
        because = _SAID.get(str(came.said["status"]))
        if because is None:
            raise UnansweredError("the answer is no verdict.")
        return Verdict(because(text(came.said.get("message"))))
