"""Proxies for answers that run in the sandbox, with the interface that the judge expects.

:func:`remote_class` and :func:`remote_routine` wrap an answer as a local callable. Some experiments
compare the answer with the course's own answer, which must not enter the sandbox. These experiments
run outside the sandbox and call the answer inside it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from autograd_doctor import RULES, CannotDiagnoseError, Finding
from autograd_doctor.evidence import Evidence
from autograd_doctor.extension import (
    Conclusion,
    UnfitEvidenceError,
    conclude,
    judge_evidence,
    recheck_gradients,
    vet_evidence,
)
from torch import Tensor
from torch.autograd import Function

from autograd_classroom.judge import seeds
from autograd_classroom.judge.asked import (
    Asked,
    UnansweredError,
    raised,
    returned,
    sequence,
    text,
    unpacked,
)
from autograd_classroom.judge.parcels import KeptOutError, kept_out, packed
from autograd_classroom.pictures import PICTURE, as_data
from autograd_classroom.protocol import Frame
from autograd_classroom.protocol.evidence import sound
from autograd_course.calls import is_float
from autograd_course.execution import Computed, Inputs, Raised
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.exercise import FunctionExercise, RoutineExercise, is_by_values
from autograd_course.grader.kinds.function import method_problem, signature_problem
from autograd_course.grader.kinds.routine import other_container_raised
from autograd_course.grader.verdict import (
    GraderFailedBecause,
    NotAttemptedBecause,
    Reason,
    Verdict,
    WrongBecause,
)
from autograd_course.submitted import Lacking


class RemoteError(RuntimeError):
    """Raised when the answer raises an exception.

    ``told`` is the sentence to show to the learner.
    """

    def __init__(self, said: str, told: str) -> None:
        super().__init__(said)
        self.told = told


def remote_class(asked: Asked) -> type[Function]:
    """Return a Function whose ``forward`` and ``backward`` call the answer in the sandbox."""

    class Answer(Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            ctx.inputs = inputs
            outputs = _pulled(asked, inputs, (), None)
            return outputs if len(outputs) != 1 else outputs[0]

        @staticmethod
        def backward(ctx: Any, *sent: Tensor) -> Any:
            asking = [at for at, need in enumerate(ctx.needs_input_grad) if need]
            came = iter(_pulled(asked, ctx.inputs, asking, sent))
            return tuple(_fitting(next(came, None), ctx.inputs[at]) if at in asking else None
                         for at in range(len(ctx.inputs)))  # fmt: skip

    return Answer


def remote_routine(asked: Asked) -> Callable[..., Any]:
    """Return a plain function that calls the answer in the sandbox.

    Autograd can differentiate it.
    """
    call: Callable[..., Any] = remote_class(asked).apply
    return call


def _pulled(
    asked: Asked, given: Sequence[Any], asking: Sequence[int], sent: Sequence[Tensor] | None
) -> tuple[Any, ...]:
    detached = tuple(value.detach() if isinstance(value, Tensor) else value for value in given)
    came = asked.ask_code({"ask": "pull"}, packed((detached, list(asking), sent)))
    if "told" in came.said:
        raise RemoteError(text(came.said.get("text")), text(came.said["told"]))
    return returned(came)


def _fitting(gradient: Any, given: Tensor) -> Tensor:
    """Return the gradient if autograd accepts it for an input.

    Raises UnansweredError if the gradient has the wrong shape or is not a float tensor.
    """
    if not is_float(gradient) or gradient.shape != given.shape:
        raise UnansweredError("the answer returns no gradient in the shape of its input.")
    checked: Tensor = gradient
    return checked


def illustrated(done: Conclusion) -> tuple[Finding, ...]:
    """Return the findings. If a gradient is wrong, add the Jacobians to the first finding."""
    try:
        pair = done.jacobians()
    except Exception:  # the rows of a Jacobian come from the sandbox, so they may have any shape
        return done.findings
    if pair is None:
        return done.findings
    first, *others = done.findings
    return (replace(first, evidence={**first.evidence, PICTURE: as_data(pair)}), *others)


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
        """Return a verdict if another required method is missing or is a stub, else ``None``."""
        methods = self.exercise.methods
        said = self.asked.ask({"ask": "method", "methods": methods}, inputs).said
        if "lacks" not in said:
            return None
        if said["lacks"] not in methods:
            raise UnansweredError("the answer names no method.")
        lacking = Lacking(said["lacks"], is_stub=said.get("stub") is True)
        return method_problem(lacking, text(said.get("name")))

    def checked(self, check: int, inputs: Inputs) -> Finding | Raised | Computed | None:
        """Run one of the exercise's own checks.

        Return its finding, the answer's error, or what the answer computed. A check runs outside
        the sandbox if it judges only values or uses the course's own answer. All other checks run
        in the sandbox.
        """
        code = _parcel(self.exercise.id, check)
        seed = seeds.derived(self.secret, "check", str(check))
        if code is None:
            return self._checked_here(check, inputs, seed)
        came = self.asked.ask_code({"ask": "check", "seed": seed}, code, inputs)
        if problem := raised(came):
            return problem
        if "computed" in came.said:
            return _computed(came)
        found = came.said.get("found")
        return None if found is None else _finding(found)

    def _checked_here(
        self, check: int, inputs: Inputs, seed: int
    ) -> Finding | Raised | Computed | None:
        torch.manual_seed(seed)
        try:
            return self.exercise.every_check[check](remote_class(self.asked), inputs)
        except RemoteError as error:
            return Raised(error.told)

    def diagnosed(self, inputs: Inputs, *, varied: bool) -> Sequence[Finding]:
        """Compute the doctor's findings outside the sandbox, using evidence from the sandbox."""
        first, second = (seeds.about(self.secret, run, inputs) for run in ("look", "look again"))
        done = conclude(Examiner(self, inputs, varied), first, second)
        done = done.with_errors_elsewhere_as_warnings()
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
            return done.findings  # the answer has already failed, so its gradients are not needed
        if reason := done.why_not_compared(exercise.intentional):
            raise UnansweredError(f"the gradients cannot be compared, because {reason}")
        with _unfit_told():
            disproof = recheck_gradients(
                example, exercise.reference, exercise.surrogate, seed=first
            )
        return done.findings if disproof is None else (disproof, *done.findings)


@dataclass(frozen=True)
class Examiner:
    """An examiner that gets evidence from the sandbox and judges it outside the sandbox."""

    answer: RemoteFunction
    inputs: Inputs
    varied: bool = True

    def collect(self, seed: int, *, thorough: bool) -> tuple[Evidence, ...]:
        """Check that the evidence from the sandbox is plausible, and return it."""
        asked, exercise = self.answer.asked, self.answer.exercise
        look: dict[str, Any] = {"ask": "look", "seed": seed, "thorough": thorough}
        look["varied"] = self.varied
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

        Compare the evidence with the gradients that the exercise expects.
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
    """Treat invalid evidence like a missing reply."""
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


def _computed(came: Frame) -> Computed:
    """Return what the answer computed in a check."""
    parts = sequence(came)
    if len(parts) == 4 and all(isinstance(part, tuple) for part in parts):
        computed = Computed(*parts)
        if len(computed.gradients) == len(computed.inputs):
            return computed
    raise UnansweredError("the answer does not say what it computed.")


def _finding(found: Any) -> Finding:
    """Build a check's finding. Take its severity and lesson from the rule, not from the sandbox."""
    named = found.get("rule") if isinstance(found, dict) else None
    if not isinstance(named, str) or named not in RULES:
        raise UnansweredError("the answer names no rule.")
    rule, said = RULES[named], (text(found.get("message")), sound(found.get("evidence")))
    return Finding(rule.name, rule.severity, *said, text(found.get("hint")), rule.lesson)


# Maps the status that the child process reports to the reason in the verdict.
_SAID: dict[str, Callable[[str], Reason]] = {
    each.status: each for each in (WrongBecause, NotAttemptedBecause, GraderFailedBecause)
}


@dataclass(frozen=True)
class RemoteRoutine:
    """A ``RoutineWitness`` for an answer in the sandbox.

    The judge draws the samples outside the sandbox. A sample can contain models and functions, so
    the judge sends it as a parcel. The judge itself computes the expected values and compares them
    with the results.
    """

    exercise: RoutineExercise
    asked: Asked
    secret: int

    def called(self, sample: str, inputs: Inputs) -> Inputs | Raised:
        """Call the routine with a sample. Return its results, or a description of its exception."""
        container = self.exercise.container.__name__ if self.exercise.container else ""
        code = packed(inputs, kept_out(self.exercise))
        came = self.asked.ask_code({"ask": "call", "container": container}, code)
        other = text(came.said.get("container", ""))
        return raised(came) or other_container_raised(other, self.exercise) or returned(came)

    def tried(self) -> Verdict | Raised | None:
        """Return the verdict of the first trial that the answer fails, or ``None``.

        A trial that uses the course's own answer runs outside the sandbox. All other trials run in
        the sandbox, and the child process reports their verdicts.
        """
        for trial in range(len(self.exercise.trials)):
            code = _sample_parcel(self.exercise.id, trial)
            seed = seeds.derived(self.secret, "trial", str(trial))
            said = self._tried_there(code, seed) if code else self._tried_here(trial, seed)
            if said is not None:
                return said
        return None

    def _tried_here(self, trial: int, seed: int) -> Verdict | Raised | None:
        torch.manual_seed(seed)
        try:
            return self.exercise.trials[trial](remote_routine(self.asked))
        except RemoteError as error:
            return Raised(error.told)

    def _tried_there(self, code: bytes, seed: int) -> Verdict | Raised | None:
        came = self.asked.ask_code({"ask": "try", "seed": seed}, code)
        if (problem := raised(came)) is not None or "status" not in came.said:
            return problem
        because = _SAID.get(str(came.said["status"]))
        if because is None:
            raise UnansweredError("the answer is not a verdict.")
        return Verdict(because(text(came.said.get("message"))))


@functools.cache
def _sample_parcel(exercise_id: str, trial: int) -> bytes | None:
    """Return a parcel with a trial, or ``None`` if the trial must run outside the sandbox."""
    exercise = CATALOGUE[exercise_id]
    assert isinstance(exercise, RoutineExercise)
    try:
        return packed(exercise.trials[trial], kept_out(exercise))
    except KeptOutError:
        return None
