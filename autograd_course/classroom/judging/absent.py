"""An answer that is run behind a wall, as the witness whom the judge asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from autograd_course.classroom.judging.vetting import UnfitError, disproved, vetted
from autograd_course.classroom.protocol import Frame, Malformed
from autograd_course.classroom.sandbox.running import Child
from autograd_course.doctor import RULES, DoctorError, Finding
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.judge import judge
from autograd_course.doctor.truth.expected import establish
from autograd_course.doctor.verdict import Findings, concluded, has_error
from autograd_course.doctor.wire import pack, unpack
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.judging.order import Inputs
from autograd_course.grader.judging.passes import Raised
from autograd_course.grader.verdict import Verdict, fault, unfinished, wrong

_LONGEST = 2000  # characters of a text that is shown


class UnansweredError(Exception):
    """No answer came, or none that could be one; the message is a sentence for the learner."""


class StoppedError(Exception):
    """The answer's own time limit stopped it; the message says where in its code."""


class BrokenError(Exception):
    """Something of ours failed in the sandbox; the message tells what."""


@dataclass(frozen=True)
class Absent:
    """The answer in a sandbox's child, as a ``Witness``; ``seed`` is what is drawn from."""

    exercise: FunctionExercise
    child: Child
    seed: int

    def ask(self, said: dict[str, Any], inputs: Inputs | None = None) -> Frame:
        """Return the answer to a question, where there is one."""
        came = self.child.ask(Frame(said, b"" if inputs is None else pack(inputs)))
        if isinstance(came, Malformed):
            raise UnansweredError(came.reason)
        if "stopped" in came.said:
            raise StoppedError(_text(came.said["stopped"]))
        if "unexamined" in came.said:
            raise DoctorError(_text(came.said["unexamined"]))
        if "failed" in came.said:
            raise BrokenError(_text(came.said["failed"]))
        return came

    def signature(self, inputs: Inputs) -> Verdict | None:
        """Return the verdict on a forward that does not take these arguments."""
        problem = self.ask({"ask": "signature"}, inputs).said.get("problem")
        return None if problem is None else wrong(_text(problem))

    def forward(self, inputs: Inputs) -> Inputs | Raised:
        """Return what one forward pass returns, or how it raised."""
        came = self.ask({"ask": "forward"}, inputs)
        return _raised(came) or _tuple(came)

    def backward(self, inputs: Inputs) -> Raised | None:
        """Return how a backward pass raised."""
        return _raised(self.ask({"ask": "backward"}, inputs))

    def gradients(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """Return the gradients for a fixed ``grad_output``, none where that raises."""
        came = _tuple(self.ask({"ask": "gradients"}, inputs))
        return came if all(isinstance(grad, Tensor) for grad in came) else ()

    def method(self, inputs: Inputs) -> Verdict | None:
        """Return the verdict on a further method that is missing or a stub."""
        said = self.ask({"ask": "method"}, inputs).said
        if said.get("found") is not None:
            return fault(_finding(said["found"]))
        return unfinished(_text(said["unwritten"])) if "unwritten" in said else None

    def checked(self, check: int, inputs: Inputs) -> Finding | None:
        """Return what one of the exercise's own checks finds."""
        found = self.ask({"ask": "check", "check": check}, inputs).said.get("found")
        return None if found is None else _finding(found)

    def diagnosed(self, inputs: Inputs) -> Sequence[Finding]:
        """Return the doctor's findings, made here on evidence from there."""
        seen = self._seen(inputs, self.seed)
        found = concluded(
            self._judged(seen, self.seed),
            lambda: self._judged(self._seen(inputs, self.seed + 1), self.seed + 1),
        )
        if not found and not any(evidence.pulls for evidence in seen):
            if any(seen[0].forward.requires_grad):
                raise UnansweredError("the answer leaves out gradients that were asked for.")
            raise DoctorError(f"no output of {seen[0].subject} can carry a gradient.")
        if has_error(found):
            return found
        try:
            disproof = disproved(self.exercise, seen[0], self.seed)
        except UnfitError as unfit:
            raise UnansweredError(f"the answer {unfit}.") from None
        return found if disproof is None else (disproof, *found)

    def _seen(self, inputs: Inputs, seed: int) -> tuple[Evidence, ...]:
        came = self.ask({"ask": "look", "seed": seed}, inputs)
        try:
            return vetted(_unpacked(came), inputs)
        except UnfitError as unfit:
            raise UnansweredError(f"the answer {unfit}.") from None

    def _judged(self, seen: Sequence[Evidence], seed: int) -> list[Findings]:
        truth = self.exercise.reference, self.exercise.surrogate, seed
        return [judge(establish(e, *truth), self.exercise.intentional) for e in seen]


def _raised(came: Frame) -> Raised | None:
    if "raised" not in came.said:
        return None
    return Raised(_text(came.said["raised"]), _text(came.said.get("unwritten", "")))


def _tuple(came: Frame) -> tuple[Any, ...]:
    value = _unpacked(came)
    if not isinstance(value, tuple):
        raise UnansweredError("the answer is no list of values.")
    return value


def _unpacked(came: Frame) -> Any:
    try:
        return unpack(came.payload)
    except ValueError:
        raise UnansweredError("the answer holds no tensors that can be read.") from None


def _finding(found: Any) -> Finding:
    """Return a finding of a check; what is not its own to say is the rule's."""
    if not isinstance(found, dict) or found.get("rule") not in RULES:
        raise UnansweredError("the answer names no rule.")
    rule, evidence = RULES[found["rule"]], found.get("evidence")
    said = _text(found.get("message")), evidence if isinstance(evidence, dict) else {}
    return Finding(rule.name, rule.severity, *said, _text(found.get("hint")), rule.lesson)


def _text(value: Any) -> str:
    return str(value)[:_LONGEST]
