"""A Function that is run behind a wall, as the witness whom the judge asks."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from autograd_course.classroom.judging import seeds
from autograd_course.classroom.judging.asked import (
    Asked,
    UnansweredError,
    raised,
    returned,
    sequence,
    text,
    unpacked,
)
from autograd_course.classroom.judging.illustrating import illustrated
from autograd_course.classroom.judging.vetting import UnfitError, disproved, vetted
from autograd_course.classroom.protocol.evidence import sound
from autograd_doctor import RULES, Finding
from autograd_doctor._coverage import nothing_compared
from autograd_doctor._judge import judge
from autograd_doctor._pipeline import Findings, conclude, has_error, unjudged
from autograd_doctor._reference import establish
from autograd_doctor.evidence import Evidence
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.judging.order import Inputs
from autograd_course.grader.judging.passes import Raised
from autograd_course.grader.verdict import Verdict, fault, unfinished, wrong


@dataclass(frozen=True)
class Absent:
    """The answer in a sandbox's child, as a ``Witness``; ``secret`` is never told to the child."""

    exercise: FunctionExercise
    asked: Asked
    secret: int

    def signature(self, inputs: Inputs) -> Verdict | None:
        """Return the verdict on a forward that does not take these arguments."""
        problem = self.asked.ask({"ask": "signature"}, inputs).said.get("problem")
        return None if problem is None else wrong(text(problem))

    def forward(self, inputs: Inputs) -> Inputs | Raised:
        """Return what one forward pass returns, or how it raised."""
        came = self.asked.ask({"ask": "forward"}, inputs)
        return raised(came) or returned(came)

    def backward(self, inputs: Inputs) -> Raised | None:
        """Return how a backward pass raised."""
        return raised(self.asked.ask({"ask": "backward"}, inputs))

    def gradients(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """Return the gradients for a fixed ``grad_output``, none where that raises."""
        came = sequence(self.asked.ask({"ask": "gradients"}, inputs))
        return came if all(isinstance(grad, Tensor) for grad in came) else ()

    def method(self, inputs: Inputs) -> Verdict | None:
        """Return the verdict on a further method that is missing or a stub."""
        said = self.asked.ask({"ask": "method"}, inputs).said
        if said.get("found") is not None:
            return fault(_finding(said["found"]))
        return unfinished(text(said["unwritten"])) if "unwritten" in said else None

    def checked(self, check: int, inputs: Inputs) -> Finding | None:
        """Return what one of the exercise's own checks finds."""
        found = self.asked.ask({"ask": "check", "check": check}, inputs).said.get("found")
        return None if found is None else _finding(found)

    def diagnosed(self, inputs: Inputs) -> Sequence[Finding]:
        """Return the doctor's findings, made here on evidence from there."""
        first, second = (seeds.about(self.secret, run, inputs) for run in ("look", "look again"))
        done = conclude(_Examiner(self, inputs), first, second)
        found, seen = done.findings, done.evidence
        if (why := unjudged(found, seen)) is not None:
            if any(seen[0].forward.requires_grad):
                raise UnansweredError("the answer leaves out gradients that were asked for.")
            raise why
        if has_error(found):
            return illustrated(found, done.verdicts, seen)
        if any(map(self.exercise.is_failed_by, found)):
            return found  # it fails the answer: what its gradients are is not asked anymore
        if reason := nothing_compared(seen[0], self.exercise.intentional):
            raise UnansweredError(f"the gradients cannot be compared, because {reason}")
        with _unfit_told():
            disproof = disproved(self.exercise, seen[0], first)
        return found if disproof is None else (disproof, *found)


@dataclass(frozen=True)
class _Examiner:
    """Asks the sandbox for evidence on an answer, and judges it here."""

    answer: Absent
    inputs: Inputs

    def collect(self, seed: int, *, thorough: bool) -> tuple[Evidence, ...]:
        """Return the evidence that the sandbox sends, as far as it can be what it says it is."""
        asked, exercise = self.answer.asked, self.answer.exercise
        came = asked.ask({"ask": "look", "seed": seed, "thorough": thorough}, self.inputs)
        with _unfit_told():
            return vetted(unpacked(came), self.inputs, exercise.reference)

    def judge(
        self, evidence: Sequence[Evidence], seed: int, skip_rules: Collection[str] = ()
    ) -> list[Findings]:
        """Return the findings on each evidence, with gradients expected by the exercise."""
        exercise = self.answer.exercise
        known = (establish(e, exercise.reference, exercise.surrogate, seed) for e in evidence)
        return [judge(each, exercise.intentional, skip_rules) for each in known]


@contextlib.contextmanager
def _unfit_told() -> Iterator[None]:
    """Take what is no answer to the question for no answer."""
    try:
        yield
    except UnfitError as unfit:
        raise UnansweredError(f"the answer {unfit}.") from None


def _finding(found: Any) -> Finding:
    """Return a finding of a check; what is not its own to say is the rule's."""
    named = found.get("rule") if isinstance(found, dict) else None
    if not isinstance(named, str) or named not in RULES:
        raise UnansweredError("the answer names no rule.")
    rule, said = RULES[named], (text(found.get("message")), sound(found.get("evidence")))
    return Finding(rule.name, rule.severity, *said, text(found.get("hint")), rule.lesson)
