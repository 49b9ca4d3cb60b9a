"""Grade an answer that is a Function. This module defines the grading steps and their order.

A :class:`Witness` runs the answer. :class:`LocalFunction` runs it in this process, and the
classroom grader uses a class that runs it in a sandbox. :class:`FunctionOrder` goes through the
steps below until it finds a mistake, and asks the witness for the results. Therefore, both graders
follow the same rules. Each step uses all samples unless otherwise noted:

1. Does forward accept the exercise's arguments?
2. Does forward run, and are its values right? Does backward run? If either one raises an error,
   ``diagnose`` may name the cause.
3. Has the learner written the other methods that the exercise requires? (On the first sample.)
4. What does ``diagnose`` find? An error fails the answer, and so does a required rule's warning.
5. Does the answer satisfy the exercise's constraints? (On the first sample.)
6. Has ``diagnose`` warned that a gradient is wrong for other inputs than the sample?
7. Does it give the same results in float32? (On the first sample.)
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import torch
from autograd_doctor import RULES, CannotDiagnoseError, Finding, diagnose
from autograd_doctor.extension import as_error, as_given
from torch import Tensor
from torch.autograd import Function

from autograd_course.calls import as_tuple, differentiated, is_float, takes_ctx
from autograd_course.execution import (
    Computed,
    Inputs,
    Printed,
    Raised,
    copied,
    gradients,
    prepare,
    run_backward,
    run_check,
    run_forward,
)
from autograd_course.grader.comparison import FORWARD, Difference, Source, difference, recognized
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.limits import Samples, Step, before, first_fault, seconds_for
from autograd_course.grader.verdict import (
    BaseClassHandedIn,
    CodeRaised,
    FunctionAgrees,
    NothingHandedIn,
    Unwritten,
    Verdict,
    WrongArguments,
    WrongKind,
    fault,
)
from autograd_course.submitted import (
    Lacking,
    Submitted,
    forward_takes,
    lacking_method,
    submitted_function,
)


def judge_function(
    exercise: FunctionExercise, answer: Any, seed: int | None, printed: Printed
) -> Verdict:
    """Return the verdict on an answer, which should be a subclass of ``Function``."""
    if problem := submission_problem(exercise, submitted_function(answer)):
        return problem
    if _runs_backward(answer):
        prepare()  # early, because a timeout during an import leaves a broken module
    samples = exercise.samples(seed)
    verdict = FunctionOrder(exercise, LocalFunction(exercise, answer, printed), samples).verdict()
    plainest = next(iter(samples.values()))
    return replace(verdict, printed=printed.on(samples.get(verdict.sample, plainest)))


def _runs_backward(answer: type[Function]) -> bool:
    """Return whether a method's code contains a call that starts a separate backward pass."""
    methods = [inspect.unwrap(method) for method in vars(answer).values() if callable(method)]
    codes = [method.__code__ for method in methods if inspect.isfunction(method)]
    return any({"grad", "backward", "vjp"} & set(code.co_names) for code in codes)


# --------------------------------------------------------------------------------------------------
# The order of the questions
# --------------------------------------------------------------------------------------------------


# If an answer breaks a rule in one of these families, the later steps cannot rely on its gradients.
OF_GRADIENTS = ("contract", "linearity", "values")


class Witness(Protocol):
    """An object that runs an answer and reports the results to the grader."""

    def signature(self, inputs: Inputs) -> Verdict | None:
        """Return a verdict if forward does not accept the exercise's arguments."""

    def forward(self, inputs: Inputs) -> Inputs | Raised:
        """Run forward once and return its result or its error."""

    def backward(self, inputs: Inputs) -> Raised | None:
        """Run backward and return its error, or ``None`` if it succeeds."""

    def method(self, inputs: Inputs) -> Verdict | None:
        """Return a verdict if another required method is missing or a stub."""

    def diagnosed(self, inputs: Inputs, *, varied: bool) -> Sequence[Finding]:
        """Return the findings of ``diagnose``, which may also vary the inputs."""

    def gradients(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """Return the gradients for a fixed ``grad_output``, or an empty tuple if the call fails."""

    def checked(self, check: int, inputs: Inputs) -> Finding | Raised | Computed | None:
        """Run one of the exercise's own checks.

        Return its finding, the answer's error, or what the answer computed in this check.
        """


@dataclass(frozen=True)
class FunctionOrder:
    """The steps that grade one answer. A witness runs the answer on the exercise's samples.

    ``timed`` says whether the time limit applies in this process instead of in the witness.
    ``warned`` maps each rule to the doctor's warning.
    """

    exercise: FunctionExercise
    witness: Witness
    samples: Samples
    timed: bool = True
    warned: dict[str, Finding] = field(default_factory=dict)

    def verdict(self) -> Verdict:
        """Return the verdict on the answer. It names the first mistake, if any."""
        return (
            self._first(self.witness.signature)
            or self._ran()
            or self._further()
            or self._diagnosed()
            or self.checked()
            or self._elsewhere()
            or self._first(self._in_float32, plainest=True)
            or replace(passed(self.exercise), warnings=tuple(self.warned.values()))
        )

    def also(self, finding: Finding) -> tuple[str, ...]:
        """Return the other rules that an answer breaks. :meth:`verdict` names only the first one.

        An empty name represents a mistake that no rule describes. If the finding shows that the
        gradients are unreliable, the result is empty, because the later steps need correct
        gradients.
        """
        if RULES[finding.rule].family in OF_GRADIENTS:
            return ()
        broken = [
            found.rule
            for inputs in self.samples.values()
            for found in self._findings(inputs)
            if self.exercise.is_failed_by(found)
        ]
        for further in (self.checked(), self._first(self._in_float32, plainest=True)):
            if further:
                broken.append(further.finding.rule if further.finding else "")
        return tuple(dict.fromkeys(rule for rule in broken if rule != finding.rule))

    def computed(self) -> Verdict | None:
        """Return a verdict on the first exception or wrong result in forward."""
        return self._first(self._forward)

    def checked(self) -> Verdict | None:
        """Return a verdict on the first of the exercise's constraints that the answer violates."""

        def step(inputs: Inputs) -> Verdict | None:
            numbers = range(len(self.exercise.checks))
            for number in numbers:
                found = self.witness.checked(number, inputs)
                if isinstance(found, Raised):
                    return Verdict(CodeRaised(found.told, in_check=True))
                if isinstance(found, Computed):
                    wrong = computed_verdict(self.exercise, found)
                    if wrong:
                        return wrong
                elif found:
                    return fault(found)
            return None

        return self._first(step, seconds_for(self.exercise), plainest=True)

    def _first(
        self, step: Step, seconds: float | None = None, *, plainest: bool = False
    ) -> Verdict | None:
        samples = {"": next(iter(self.samples.values()))} if plainest else self.samples
        return first_fault(samples, step, seconds if self.timed else 0)

    def _ran(self) -> Verdict | None:
        """Run forward and backward to find a missing method, an exception or a wrong result."""
        forward = self._first(self._forward)
        if forward and not forward.finding:
            return self._explained(forward)
        backward = self._first(self._backward)
        if backward and isinstance(backward.reason, Unwritten):
            return Verdict(Unwritten("backward", forward=forward.reason if forward else "right"))
        return forward or (backward and self._explained(backward))

    def _further(self) -> Verdict | None:
        return self._first(self.witness.method, plainest=True) if self.exercise.methods else None

    def _forward(self, inputs: Inputs) -> Verdict | None:
        earlier = [*before(self.samples, inputs)]
        return forward_verdict(self.exercise, self.witness.forward(inputs), inputs, earlier)

    def _backward(self, inputs: Inputs) -> Verdict | None:
        came = self.witness.backward(inputs)
        if came is None:
            return None
        return Verdict(Unwritten("backward") if came.unwritten else CodeRaised(came.told))

    def _explained(self, raised: Verdict) -> Verdict:
        """Return the doctor's verdict if a rule describes the error, and ``raised`` otherwise."""
        if isinstance(raised.reason, Unwritten):
            return raised
        with contextlib.suppress(CannotDiagnoseError):
            named = self._diagnosed()
            if named and named.finding:
                return named
        return raised

    def _diagnosed(self) -> Verdict | None:
        return self._first(self._examined, seconds_for(self.exercise))

    def _examined(self, inputs: Inputs) -> Verdict | None:
        findings = self._findings(inputs)
        found = _first_cause([*filter(self.exercise.is_failed_by, findings)])
        for finding in filter(self.exercise.warns_of, findings):
            self.warned.setdefault(finding.rule, finding)
        return fault(found and self._recognized(found, inputs))

    def _elsewhere(self) -> Verdict | None:
        """Return a verdict on a gradient that is wrong only for other inputs than the samples."""
        wrong = self.exercise.is_failed_elsewhere
        if not any(map(wrong, self.warned.values())):
            return None

        def step(inputs: Inputs) -> Verdict | None:
            found = _first_cause([*filter(wrong, self._findings(inputs))])
            failed = found and as_error(found, "for other numbers than these")
            return fault(failed and self._recognized(failed, inputs))

        return self._first(step, seconds_for(self.exercise))

    def _findings(self, inputs: Inputs) -> Sequence[Finding]:
        """Return the findings of ``diagnose`` for one sample.

        Samples with the same numbers and options are variations of each other, so ``diagnose``
        varies only the first of them.
        """
        like = [it for it in before(self.samples, inputs) if _options(it) == _options(inputs)]
        return self.witness.diagnosed(inputs, varied=not like)

    def _in_float32(self, inputs: Inputs) -> Verdict | None:
        return float32_verdict(self.exercise, self.witness, inputs)

    def _recognized(self, found: Finding, inputs: Inputs) -> Finding:
        """Return the finding. Replace its hint if a check or the gradients reveal the cause."""
        for number in range(len(self.exercise.checks), len(self.exercise.every_check)):
            with contextlib.suppress(Exception):  # the answer may raise the same exception again
                cause = self.witness.checked(number, inputs)
                if isinstance(cause, Finding) and cause.rule == found.rule:
                    return replace(found, hint=cause.hint)
        is_summed = found.rule == "unreduced-broadcast"  # autograd sums it to the right shape
        if not self.exercise.gradient_suspects:
            return found
        if RULES[found.rule].family == "contract" and not is_summed:
            return found
        came, earlier = self.witness.gradients(inputs), [*before(self.samples, inputs)]
        return recognized_gradients(self.exercise, came, inputs, found, earlier)


def _options(inputs: Inputs) -> list[Any]:
    """Return the arguments that are not tensors, and the dtypes of the tensors."""
    return [it.dtype if isinstance(it, Tensor) else it for it in inputs]


def _first_cause(failing: Sequence[Finding]) -> Finding | None:
    """Return the first finding that makes the answer fail.

    If an output that should get a gradient gets none, other findings can be consequences of this
    mistake, so return the first finding about the contract.
    """
    if any(it.rule == "wrong-non-differentiable" for it in failing):
        failing = [it for it in failing if RULES[it.rule].family == "contract"]
    return next(iter(failing), None)


def passed(exercise: FunctionExercise) -> Verdict:
    """Return the verdict on an answer without mistakes."""
    truth: Literal["reference", "surrogate", "second derivatives"] = "reference"
    if exercise.surrogate:
        truth = "surrogate"
    elif exercise.double_backward:
        truth = "second derivatives"
    samples = tuple(exercise.samplers)
    return Verdict(FunctionAgrees(truth, exercise.constraints, samples, exercise.modeled_on))


# --------------------------------------------------------------------------------------------------
# The answer in this process
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LocalFunction:
    """A :class:`Witness` of an answer that is a Function class in this process."""

    exercise: FunctionExercise
    answer: type[Function]
    printed: Printed = field(default_factory=Printed)

    def signature(self, inputs: Inputs) -> Verdict | None:
        """Return a verdict if forward does not accept the exercise's arguments."""
        takes = forward_takes(self.answer, inputs)
        separate = not takes_ctx(self.answer)
        return signature_problem(self.exercise, takes=takes, separate=separate)

    def forward(self, inputs: Inputs) -> Inputs | Raised:
        """Run forward once and return its result or its error."""
        with self.printed.during(inputs):
            return run_forward(self.answer, inputs)

    def backward(self, inputs: Inputs) -> Raised | None:
        """Run backward and return its error, or ``None`` if it succeeds."""
        with self.printed.during(inputs):
            return run_backward(self.answer, inputs)

    def diagnosed(self, inputs: Inputs, *, varied: bool) -> Sequence[Finding]:
        """Return the findings of ``diagnose``, which may also vary the inputs."""
        sampler = None if varied else as_given
        asked = declared(self.exercise)
        return diagnose(self.answer, inputs, sampler=sampler, **asked).findings

    def gradients(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """Return the gradients for a fixed ``grad_output``, or an empty tuple if the call fails."""
        return gradients(self.answer.apply, inputs)

    def method(self, inputs: Inputs) -> Verdict | None:
        """Return a verdict if another required method is missing or a stub."""
        lacking = lacking_method(self.answer, self.exercise.methods, inputs)
        return method_problem(lacking, self.answer.__name__)

    def checked(self, check: int, inputs: Inputs) -> Finding | Raised | Computed | None:
        """Run one of the exercise's own checks.

        Return its finding, the answer's error, or what the answer computed in this check.
        """
        found: Finding | Raised | Computed | None = run_check(
            self.exercise.every_check[check], self.answer, inputs
        )
        return found


def declared(exercise: FunctionExercise) -> dict[str, Any]:
    """Return the options to pass to ``diagnose`` for an answer to this exercise."""
    return {
        "reference": exercise.reference,
        "surrogate": exercise.surrogate,
        "intentional": exercise.intentional,
        "double_backward": exercise.double_backward,
    }


# --------------------------------------------------------------------------------------------------
# Is it a Function, and can it be called as required?
# --------------------------------------------------------------------------------------------------


def submission_problem(exercise: FunctionExercise, submitted: Submitted) -> Verdict | None:
    """Return a verdict if the answer is not a Function class, or ``None`` if it is."""
    match submitted.kind:
        case "right":
            return None
        case "nothing":
            return Verdict(NothingHandedIn(exercise.id, "class"))
        case "base class":
            return Verdict(BaseClassHandedIn())
    return Verdict(WrongKind(submitted.kind, submitted.name, exercise.id))


def signature_problem(exercise: FunctionExercise, *, takes: bool, separate: bool) -> Verdict | None:
    """Return a verdict if forward does not accept the exercise's arguments.

    ``separate`` says whether the answer has a separate ``setup_context``.
    """
    if takes:
        return None
    return Verdict(WrongArguments("forward", exercise.signature(separate=separate)))


# --------------------------------------------------------------------------------------------------
# Are forward's values right, and which mistake explains the wrong gradients?
# --------------------------------------------------------------------------------------------------


def forward_verdict(
    exercise: FunctionExercise,
    came: Inputs | Raised,
    inputs: Inputs,
    earlier: Sequence[Inputs] = (),
) -> Verdict | None:
    """Return a verdict if the result of forward is wrong or forward is unfinished.

    ``earlier`` holds other inputs, for which the result was right.
    """
    if isinstance(came, Raised):
        if came.unwritten in ("setup_context", *exercise.methods):
            return Verdict(Unwritten(came.unwritten))
        if came.unwritten:
            return Verdict(Unwritten("forward", exercise.signature(separate=came.separate)))
        return Verdict(CodeRaised(came.told))
    names = inspect.signature(exercise.reference).parameters
    floats = {n: it.dtype for n, it in zip(names, inputs, strict=False) if is_float(it)}
    source = replace(FORWARD, inputs=floats)
    found = difference(came, as_tuple(exercise.reference(*inputs)), source)
    if found is None:
        return None
    right = [(other, as_tuple(exercise.reference(*other))) for other in earlier]
    known = recognized(came, exercise.suspects, inputs, earlier=right)
    return fault(_mismatch(found, exercise, inputs, known or found.hint))


def _mismatch(found: Difference, exercise: FunctionExercise, inputs: Inputs, hint: str) -> Finding:
    """Return a finding about a wrong result, including the inputs at the wrong element's index."""
    evidence = dict(found.evidence)
    if "index" in evidence:
        names = inspect.signature(exercise.reference).parameters
        evidence["given"] = {
            name: value[tuple(evidence["index"])].item()
            for name, value in zip(names, inputs, strict=False)
            if isinstance(value, Tensor) and value.shape == evidence["shape"]
        }
    return Finding("forward-mismatch", "error", found.message, evidence, hint, "01_template")


def recognized_gradients(
    exercise: FunctionExercise,
    came: tuple[Tensor, ...],
    inputs: Inputs,
    found: Finding,
    earlier: Sequence[Inputs] = (),
) -> Finding:
    """Return the finding, with a new hint if a known mistake gives the same gradients.

    The mistake must have no effect on the ``earlier`` inputs, for which the answer was right.
    """
    truth = exercise.surrogate or exercise.reference
    if not came or difference(came, gradients(truth, inputs)) is None:
        return found  # something else is wrong; correct gradients do not point to a mistake
    for sentence, suspect in exercise.gradient_suspects.items():
        if difference(came, gradients(suspect, inputs)) is None and not any(
            (seen := gradients(suspect, other)) and difference(seen, gradients(truth, other))
            for other in earlier
        ):
            return replace(found, hint=sentence)
    return found


# --------------------------------------------------------------------------------------------------
# Is another required method missing or a stub?
# --------------------------------------------------------------------------------------------------


def method_problem(lacking: Lacking | None, name: str) -> Verdict | None:
    """Return a verdict if the Function with this name lacks a required method."""
    if lacking is None:
        return None
    if lacking.is_stub:
        return Verdict(Unwritten(lacking.method, forward="right"))
    return fault(_missing(lacking.method, name))


def _missing(method: str, name: str) -> Finding:
    if method == "setup_context":
        return _found(
            "func-incompatible",
            f"`forward` is right, but it still takes `ctx` as an argument in `{name}`, "
            "so `torch.func` raises an error.",
        )
    if method == "vmap":
        return _found(
            "wrong-vmap",
            "`forward` is right, but `torch.func.vmap` raises an error. The class defines no "
            "method `vmap` and does not set `generate_vmap_rule = True`.",
            "If `forward` and `backward` use only PyTorch operations, set `generate_vmap_rule = "
            "True` in the class. Otherwise, write `vmap`.",
        )
    return _found(
        "wrong-jvp",
        "`forward` is right, but the class has no `jvp` method, which forward mode needs.",
    )


def _found(rule: str, message: str, hint: str = "") -> Finding:
    known = RULES[rule]
    return Finding(rule, known.severity, message, {}, hint or known.hint, known.lesson)


# --------------------------------------------------------------------------------------------------
# Are the results also right in the calls that a check measures?
# --------------------------------------------------------------------------------------------------

_MEASURED = "in a call that the grader measures, "
_MEASURED_HINT = (
    "It is right for other inputs. Which step of your code depends on the size of the inputs?"
)


def computed_verdict(exercise: FunctionExercise, came: Computed) -> Verdict | None:
    """Compare what an answer computed during a check with the reference."""
    expected = as_tuple(exercise.reference(*copied(came.inputs)))
    source = Source(f"{_MEASURED}`forward`", "returns")
    if found := _off(came.outputs, expected, source):
        return fault(_unlike("forward-mismatch", found, _MEASURED_HINT))
    truth = gradients(exercise.surrogate or exercise.reference, came.inputs, came.sent)
    if not truth or exercise.intentional:
        return None
    given = [came.gradients[place] for place in differentiated(came.inputs)]
    actual = [
        torch.zeros_like(right) if it is None else it
        for it, right in zip(given, truth, strict=True)
    ]
    return _gradients_off(exercise, came.inputs, actual, truth, _MEASURED, _MEASURED_HINT)


# --------------------------------------------------------------------------------------------------
# Are the results the same in float32, which most people use for training?
# --------------------------------------------------------------------------------------------------

# Relative to the largest number. Adding numbers in a different order changes a result by only 1% of
# this tolerance. A mistake that halves the gradient changes the result by 50%.
_FLOAT32_TOLERANCE = 1e-3
_FLOAT32 = {torch.float64: torch.float32, torch.complex128: torch.complex64}
_FLOAT32_HINT = "It is right in float64. Which step of your code depends on the dtype?"


def float32_verdict(exercise: FunctionExercise, witness: Witness, inputs: Inputs) -> Verdict | None:
    """Compare the answer and the reference on the same float32 inputs."""
    narrow = tuple(map(_to_float32, inputs))
    try:
        expected = as_tuple(exercise.reference(*narrow))
    except Exception:  # not required if the reference fails too
        return None
    came = witness.forward(narrow)
    if isinstance(came, Raised):
        return Verdict(CodeRaised(came.told, in_float32=True))
    if found := _off(came, expected, Source("in float32, `forward`", "returns")):
        return fault(_unlike("forward-mismatch", found, _FLOAT32_HINT))
    return _float32_gradient_verdict(exercise, witness, narrow)


def _float32_gradient_verdict(
    exercise: FunctionExercise, witness: Witness, narrow: Inputs
) -> Verdict | None:
    truth = gradients(exercise.surrogate or exercise.reference, narrow)
    came = witness.gradients(narrow) if truth else ()
    if len(came) != len(truth):
        raised = witness.backward(narrow)
        return Verdict(CodeRaised(raised.told, in_float32=True)) if raised else None
    return _gradients_off(exercise, narrow, came, truth, "in float32, ", _FLOAT32_HINT)


def _gradients_off(
    exercise: FunctionExercise,
    inputs: Inputs,
    came: Sequence[Tensor],
    truth: Sequence[Tensor],
    where: str,
    hint: str,
) -> Verdict | None:
    names = list(inspect.signature(exercise.reference).parameters)
    for place, actual, expected in zip(differentiated(inputs), came, truth, strict=True):
        source = Source(f"{where}the gradient of `{names[place]}`", "has")
        if found := _off((actual,), (expected,), source):
            return fault(_unlike("gradient-mismatch", found, hint))
    return None


def _to_float32(value: Any) -> Any:
    if not isinstance(value, Tensor) or value.dtype not in _FLOAT32:
        return value
    return value.detach().to(_FLOAT32[value.dtype]).requires_grad_(value.requires_grad)


def _off(came: Inputs, expected: Inputs, source: Source) -> Difference | None:
    finite = [out.abs().nan_to_num(0, 0, 0) for out in expected if out.numel()]
    largest = max((float(out.max()) for out in finite), default=0.0)
    tolerance = _FLOAT32_TOLERANCE
    return difference(came, expected, source, tolerance, tolerance * largest)


def _unlike(rule: str, found: Difference, hint: str) -> Finding:
    return Finding(rule, "error", found.message, dict(found.evidence), hint, "01_template")
