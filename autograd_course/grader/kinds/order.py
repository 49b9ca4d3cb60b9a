"""The order of work on a Function: what is asked, of whoever can run it, and what follows from it.

``grade`` asks a witness in the same process, the classroom one behind a wall: the rules are these.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from autograd_doctor import RULES, CannotDiagnoseError, Finding
from torch import Tensor

from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.limits import Samples, Step, first_fault, seconds_for
from autograd_course.grader.execution import (
    Raised,
    backward_verdict,
    forward_verdict,
    recognized_gradients,
)
from autograd_course.grader.kinds.single import single_verdict
from autograd_course.grader.verdict import Verdict, fault, unfinished

Inputs = tuple[Any, ...]


class Witness(Protocol):
    """Who can run an answer, and tell what comes of it."""

    def signature(self, inputs: Inputs) -> Verdict | None:
        """Return the verdict on a forward that does not take these arguments."""

    def forward(self, inputs: Inputs) -> Inputs | Raised:
        """Return what one forward pass returns, or how it raised."""

    def backward(self, inputs: Inputs) -> Raised | None:
        """Return how a backward pass raised."""

    def method(self, inputs: Inputs) -> Verdict | None:
        """Return the verdict on a further method that is missing or a stub."""

    def diagnosed(self, inputs: Inputs) -> Sequence[Finding]:
        """Return the doctor's findings."""

    def gradients(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """Return the gradients for a fixed ``grad_output``, none where that raises."""

    def checked(self, check: int, inputs: Inputs) -> Finding | None:
        """Return what one of the exercise's own checks finds."""


@dataclass(frozen=True)
class Order:
    """One exercise, one answer's witness, the inputs to ask about.

    ``timed``: the time that answering takes is limited here, not by the witness. ``warned`` gathers
    the warnings of the doctor, by rule.
    """

    exercise: FunctionExercise
    witness: Witness
    samples: Samples
    timed: bool = True
    warned: dict[str, Finding] = field(default_factory=dict)

    def verdict(self) -> Verdict:
        """Return the verdict: the first fault, or none."""
        return (
            self.until_checks()
            or self.checked()
            or self._first(self._in_single, plainest=True)
            or replace(passed(self.exercise), warnings=tuple(self.warned.values()))
        )

    def until_checks(self) -> Verdict | None:
        """Return the first fault before the exercise's own checks: of any forward or gradient."""
        return (
            self._first(self.witness.signature)
            or self._ran()
            or self._further()
            or self._diagnosed()
        )

    def _first(
        self, step: Step, seconds: float | None = None, *, plainest: bool = False
    ) -> Verdict | None:
        samples = {"": next(iter(self.samples.values()))} if plainest else self.samples
        return first_fault(samples, step, seconds if self.timed else 0)

    def computed(self) -> Verdict | None:
        """Return the first fault of what forward returns."""
        return self._first(self._forward)

    def _ran(self) -> Verdict | None:
        """Run forward, then backward: is either unwritten, does one raise, is forward wrong?"""
        forward = self._first(self._forward)
        if forward and not forward.finding:
            return self._explained(forward)
        backward = self._first(self._backward)
        if backward and backward.status == "not attempted":
            return unfinished(_backward_missing(forward))
        return forward or (backward and self._explained(backward))

    def _further(self) -> Verdict | None:
        return self._first(self.witness.method, plainest=True) if self.exercise.methods else None

    def _forward(self, inputs: Inputs) -> Verdict | None:
        return forward_verdict(self.exercise, self.witness.forward(inputs), inputs)

    def _backward(self, inputs: Inputs) -> Verdict | None:
        return backward_verdict(self.witness.backward(inputs))

    def _explained(self, raised: Verdict) -> Verdict:
        """Return the doctor's verdict on code that raised, where a rule names the cause."""
        if raised.status == "not attempted":
            return raised
        with contextlib.suppress(CannotDiagnoseError):
            named = self._diagnosed()
            if named and named.finding:
                return named
        return raised

    def _diagnosed(self) -> Verdict | None:
        return self._first(self._examined, seconds_for(self.exercise))

    def _examined(self, inputs: Inputs) -> Verdict | None:
        findings = self.witness.diagnosed(inputs)
        found = next(filter(self.exercise.is_failed_by, findings), None)
        for finding in filter(self.exercise.warns_of, findings):
            self.warned.setdefault(finding.rule, finding)
        return fault(found and self._recognized(found, inputs))

    def _in_single(self, inputs: Inputs) -> Verdict | None:
        return single_verdict(self.exercise, self.witness, inputs)

    def _recognized(self, found: Finding, inputs: Inputs) -> Finding:
        """Ask for gradients where a formula may be to blame: a broken contract keeps its hint."""
        if not self.exercise.gradient_suspects or RULES[found.rule].family == "contract":
            return found
        return recognized_gradients(self.exercise, self.witness.gradients(inputs), inputs, found)

    def checked(self) -> Verdict | None:
        """Return the first fault of what only this exercise asks."""

        def step(inputs: Inputs) -> Verdict | None:
            numbers = range(len(self.exercise.checks))
            faults = (self.witness.checked(number, inputs) for number in numbers)
            return fault(next(filter(None, faults), None))

        return self._first(step, seconds_for(self.exercise), plainest=True)


def _backward_missing(forward: Verdict | None) -> str:
    if forward is None:
        return "`forward` is right. You have not written `backward` yet."
    return f"you have not written `backward` yet, and {forward.message}"


def passed(exercise: FunctionExercise) -> Verdict:
    """Return the verdict on an answer without a fault: what was tried."""
    constraint = f", and {exercise.bounds}" if exercise.bounds else ""
    if exercise.surrogate:
        right = "`forward` agrees with the reference and every gradient with the declared surrogate"
    elif exercise.double_backward:
        right = "`forward`, every gradient and every second derivative agree with the reference"
    else:
        right = "`forward` and every gradient agree with the reference"
    model = f" Modeled on {exercise.modeled_on}." if exercise.modeled_on else ""
    tried = f"Tried on: {'; '.join(exercise.samplers)}."
    return Verdict("passed", f"{right}{constraint}. {tried}{model}")
