"""A proxy for a routine that runs in the sandbox, with the interface that the judge expects."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from autograd_classroom.judge.asked import Asked, UnansweredError, raised, returned, text
from autograd_classroom.judge.parcels import KeptOutError, kept_out, packed
from autograd_classroom.judge.remote_call import RemoteError, remote_routine
from autograd_course.execution import Inputs, Raised
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.kinds.routine import other_container_raised
from autograd_course.grader.verdict import (
    GraderFailedBecause,
    NotAttemptedBecause,
    Reason,
    Verdict,
    WrongBecause,
)

# Maps the status that the child process reports to the reason in the verdict.
_SAID: dict[str, Callable[[str], Reason]] = {
    each.status: each for each in (WrongBecause, NotAttemptedBecause, GraderFailedBecause)
}


@dataclass(frozen=True)
class RemoteRoutine:
    """A ``RoutineWitness`` for an answer in the sandbox.

    Samples are drawn outside the sandbox. A sample can contain models and functions, so it is sent
    as a parcel. The judge compares the results with values that it computes outside the sandbox.
    """

    exercise: RoutineExercise
    asked: Asked

    def called(self, sample: str, inputs: Inputs) -> Inputs | Raised:
        """Call the routine with a sample. Return its results, or a description of its exception."""
        container = self.exercise.container.__name__ if self.exercise.container else ""
        code = packed(inputs, kept_out(self.exercise))
        came = self.asked.ask_code({"ask": "call", "container": container}, code)
        other = text(came.said.get("container", ""))
        return raised(came) or other_container_raised(other, self.exercise) or returned(came)

    def tried(self) -> Verdict | Raised | None:
        """Return the verdict of the first trial that the answer fails, or ``None``.

        A trial that uses the course's own answer runs outside the sandbox. Any other trial runs in
        the sandbox, and the child process reports its verdict.
        """
        for trial in range(len(self.exercise.trials)):
            code = _parcel(self.exercise.id, trial)
            said = self._tried_here(trial) if code is None else self._tried_there(code)
            if said is not None:
                return said
        return None

    def _tried_here(self, trial: int) -> Verdict | Raised | None:
        try:
            return self.exercise.trials[trial](remote_routine(self.asked))
        except RemoteError as error:
            return Raised(error.told)

    def _tried_there(self, code: bytes) -> Verdict | Raised | None:
        came = self.asked.ask_code({"ask": "try"}, code)
        if (problem := raised(came)) is not None or "status" not in came.said:
            return problem
        because = _SAID.get(str(came.said["status"]))
        if because is None:
            raise UnansweredError("the answer is not a verdict.")
        return Verdict(because(text(came.said.get("message"))))


@functools.cache
def _parcel(exercise_id: str, trial: int) -> bytes | None:
    """Return a parcel with a trial, or ``None`` if the trial must run outside the sandbox."""
    exercise = CATALOGUE[exercise_id]
    assert isinstance(exercise, RoutineExercise)
    try:
        return packed(exercise.trials[trial], kept_out(exercise))
    except KeptOutError:
        return None
