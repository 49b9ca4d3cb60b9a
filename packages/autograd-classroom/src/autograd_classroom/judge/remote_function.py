"""A proxy for a Function that runs in the sandbox, with the interface that the judge expects."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autograd_doctor import RULES, CannotDiagnoseError, Finding
from autograd_doctor.evidence import Evidence
from autograd_doctor.extension import (
    UnfitEvidenceError,
    conclude,
    judge_evidence,
    recheck_gradients,
    vet_evidence,
)
from torch import Tensor

from autograd_classroom.judge import seeds
from autograd_classroom.judge.asked import (
    Asked,
    BrokenError,
    UnansweredError,
    raised,
    returned,
    sequence,
    text,
    unpacked,
)
from autograd_classroom.judge.illustrating import illustrated
from autograd_classroom.judge.parcels import KeptOutError, kept_out, packed
from autograd_classroom.judge.remote_call import RemoteError, remote_class
from autograd_classroom.protocol.evidence import sound
from autograd_course.execution import Inputs, Raised
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.exercise import FunctionExercise, is_by_values
from autograd_course.grader.kinds.function import method_problem, signature_problem
from autograd_course.grader.verdict import Verdict
from autograd_course.submitted import Lacking


@dataclass(frozen=True)
class RemoteFunction:
    """A ``Witness`` for an answer in the sandbox. The sandbox never sees ``secret``."""

    exercise: FunctionExercise
    asked: Asked
    secret: int
    # Edited source code of the answer's methods, by method name.
    sources: Mapping[str, str] = field(default_factory=dict)
    # The inputs and evidence of the latest diagnosis, on which its findings are based.
    seen: list[tuple[Inputs, Sequence[Evidence]]] = field(default_factory=list)

    def signature(self, inputs: Inputs) -> Verdict | None:
        """Return a verdict if ``forward`` does not accept these arguments, otherwise ``None``."""
        said = self.asked.ask({"ask": "signature"}, inputs).said
        takes, separate = said.get("takes") is True, said.get("separate") is True
        return signature_problem(self.exercise, takes=takes, separate=separate)

    def forward(self, inputs: Inputs) -> Inputs | Raised:
        """Return the results of one forward pass, or a description of its exception."""
        came = self.asked.ask({"ask": "forward"}, inputs)
        return raised(came) or returned(came)

    def backward(self, inputs: Inputs) -> Raised | None:
        """Return a description of the exception that ``backward`` raises, or ``None``."""
        return raised(self.asked.ask({"ask": "backward"}, inputs))

    def gradients(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """Return the gradients for a fixed ``grad_output``, or ``()`` if ``backward`` raises."""
        came = sequence(self.asked.ask({"ask": "gradients"}, inputs))
        return came if all(isinstance(grad, Tensor) for grad in came) else ()

    def method(self, inputs: Inputs) -> Verdict | None:
        """Return a verdict if another required method is missing or a stub, otherwise ``None``."""
        methods = self.exercise.methods
        said = self.asked.ask({"ask": "method", "methods": methods}, inputs).said
        if "lacks" not in said:
            return None
        if said["lacks"] not in methods:
            raise UnansweredError("the answer names no method.")
        lacking = Lacking(said["lacks"], is_stub=said.get("stub") is True)
        return method_problem(lacking, text(said.get("name")))

    def checked(self, check: int, inputs: Inputs) -> Finding | None:
        """Run one of the exercise's own checks, and return its finding.

        A check runs outside the sandbox if it judges only values or uses the course's own answer.
        Any other check runs in the sandbox.
        """
        code = _parcel(self.exercise.id, check)
        if code is None:
            return self._checked_here(check, inputs)
        found = self.asked.ask_code({"ask": "check"}, code, inputs).said.get("found")
        return None if found is None else _finding(found)

    def _checked_here(self, check: int, inputs: Inputs) -> Finding | None:
        try:
            return self.exercise.every_check[check](remote_class(self.asked), inputs)
        except RemoteError as error:
            raise BrokenError(str(error)) from None

    def diagnosed(self, inputs: Inputs) -> Sequence[Finding]:
        """Return the doctor's findings, which are computed here from the sandbox's evidence."""
        first, second = (seeds.about(self.secret, run, inputs) for run in ("look", "look again"))
        done = conclude(Examiner(self, inputs), first, second)
        self.seen[:] = [(inputs, done.evidence)]
        example = done.evidence[0]
        try:
            done.require_gradient()
        except CannotDiagnoseError:
            if any(example.forward.requires_grad):
                raise UnansweredError("the answer leaves out requested gradients.") from None
            raise
        if done.has_error:
            return illustrated(done)
        exercise = self.exercise
        if any(map(exercise.is_failed_by, done.findings)):
            return done.findings  # the answer already fails, so its gradients are not needed
        if reason := done.why_not_compared(exercise.intentional):
            raise UnansweredError(f"the gradients cannot be compared, because {reason}")
        with _unfit_told():
            disproof = recheck_gradients(
                example, exercise.reference, exercise.surrogate, seed=first
            )
        return done.findings if disproof is None else (disproof, *done.findings)


@dataclass(frozen=True)
class Examiner:
    """Asks the sandbox for evidence about an answer, and judges the evidence outside."""

    answer: RemoteFunction
    inputs: Inputs

    def collect(self, seed: int, *, thorough: bool) -> tuple[Evidence, ...]:
        """Return the evidence from the sandbox, after checking that it is plausible."""
        asked, exercise = self.answer.asked, self.answer.exercise
        look: dict[str, Any] = {"ask": "look", "seed": seed, "thorough": thorough}
        look["double_backward"] = exercise.double_backward
        if self.answer.sources:
            look["sources"] = dict(self.answer.sources)
        came = asked.ask(look, self.inputs)
        with _unfit_told():
            return vet_evidence(
                unpacked(came),
                self.inputs,
                exercise.reference,
                keep_other_numbers=not (exercise.surrogate or exercise.intentional),
            )

    def judge(
        self, evidence: Sequence[Evidence], seed: int, skip_rules: Collection[str] = ()
    ) -> list[tuple[Finding, ...]]:
        """Return the findings for each piece of evidence.

        The evidence is compared with the gradients that the exercise expects.
        """
        exercise = self.answer.exercise
        return [
            judge_evidence(
                each,
                reference=exercise.reference,
                surrogate=exercise.surrogate,
                intentional=exercise.intentional,
                skip_rules=skip_rules,
                seed=seed,
            )
            for each in evidence
        ]


@contextlib.contextmanager
def _unfit_told() -> Iterator[None]:
    """Handle invalid evidence in the same way as a missing reply."""
    try:
        yield
    except UnfitEvidenceError as unfit:
        raise UnansweredError(f"the answer {unfit}.") from None


@functools.cache
def _parcel(exercise_id: str, check: int) -> bytes | None:
    """Return a parcel with a check, or ``None`` if the check must run outside the sandbox."""
    exercise = CATALOGUE[exercise_id]
    assert isinstance(exercise, FunctionExercise)
    if is_by_values(exercise.every_check[check]):
        return None
    try:
        return packed(exercise.every_check[check], kept_out(exercise))
    except KeptOutError:
        return None


def _finding(found: Any) -> Finding:
    """Build a check's finding. Its severity and lesson come from the rule, not from the sandbox."""
    named = found.get("rule") if isinstance(found, dict) else None
    if not isinstance(named, str) or named not in RULES:
        raise UnansweredError("the answer names no rule.")
    rule, said = RULES[named], (text(found.get("message")), sound(found.get("evidence")))
    return Finding(rule.name, rule.severity, *said, text(found.get("hint")), rule.lesson)
