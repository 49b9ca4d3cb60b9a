"""The steps of a diagnosis, from the caller's inputs to the findings.

A diagnosis first runs the user's code and stores its observations as plain data, called evidence.
The rules then judge the evidence. A rule never runs the user's code, so the code cannot interfere
with a rule, and another process can judge the evidence. The classroom relies on this separation: a
sandbox collects the evidence, and the judge never runs the code.

A diagnosis takes twelve steps:

1.  ``_options`` and ``_inputs`` check the arguments of ``diagnose`` before any user code runs.
2.  ``_execution.captured_state`` finds the state that the Function can reach besides its arguments,
    and ``_execution.isolation`` records the global state. The diagnosis restores both at the end.
3.  A ``Session`` runs the Function on float64 copies of the inputs. Each run draws the same random
    numbers. A subclass of the Function records how the run uses ``ctx``.
4.  ``_probes.core`` runs one forward pass. It calls ``backward`` directly on the graph node, before
    autograd sums or casts the result, and repeats this in other dtypes and on the meta device.
5.  It runs backward passes for related values of ``grad_output``, and measures the slope of
    ``forward`` along random directions. If every gradient agrees with these slopes, no Jacobian is
    needed (``_numerics.projection``).
6.  Otherwise, it computes columns of the Jacobian by finite differences. For a large input, it
    computes only a sample of the columns, and ``_numerics.bisection`` searches for the wrong
    elements.
7.  Each of the other probes examines one more aspect of the example: other memory layouts, extreme
    values, repeated calls, second derivatives, transforms. Most probes make the same call in two
    ways and compare the results.
8.  ``_collect`` repeats steps 3 to 6 on other inputs (``examine_samples``). These inputs come from
    the ``sampler`` or are variations of the example: singular elements, other numbers, and other
    tensors.
9.  ``_reference`` adds the expected gradients. They come from autograd on the reference or
    surrogate, or from finite differences with an estimate of their error. ``_reference`` excludes
    elements at a kink.
10. The rules judge each ``Evidence`` (``_judge``). They run in order, starting with the most basic
    cause, and an error can explain away a later finding. If the subject is a callable, they also
    judge the Functions inside it (``Case._inside``).
11. ``conclude`` chooses the clearest findings. An error counts only if a second run on new random
    inputs shows it again.
12. ``_coverage`` states what the diagnosis examined and what it did not. Then ``api`` creates the
    ``Diagnosis``.

An error on float64 copies counts only if the call also fails in the dtypes of the caller's own
inputs (``_execution.dtypes``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch

from autograd_doctor._collect import Sampler, changed_numbers, examine_case, examine_samples
from autograd_doctor._coverage import avoided_kinks, nothing_compared
from autograd_doctor._declaration import declaration_of
from autograd_doctor._execution.inner_calls import calls_in
from autograd_doctor._execution.session import Session, Subject, subject_of
from autograd_doctor._judge import RANK, judge
from autograd_doctor._numerics.tensors import is_float, is_plain
from autograd_doctor._probes import (
    ONLY_OF_A_CALLABLE,
    Level,
    Probe,
    probes_for,
)
from autograd_doctor._probes.core import choose_precision
from autograd_doctor._reference import establish
from autograd_doctor._rules import RULES
from autograd_doctor.card import may_be_intended
from autograd_doctor.errors import CannotDiagnoseError
from autograd_doctor.evidence import BackwardInside, Evidence
from autograd_doctor.finding import Finding
from autograd_doctor.jacobians import Jacobians, both_jacobians

# --------------------------------------------------------------------------------------------------
# Combine the findings from several inputs into one verdict, and confirm it with a second run.
# --------------------------------------------------------------------------------------------------

Findings = tuple[Finding, ...]

# Rules for the Functions inside a callable. The diagnosis judges gradient values only for the whole
# callable, because a surrogate, a scale or a mask around a Function may correct them.
FAMILIES_ASKED_INSIDE = ("contract", "layout", "state", "efficiency")
VALUE_FAMILIES = ("linearity", "values")  # the families of rules that examine only gradients
# If a Function breaks one of these rules, forward is wrong or its values are unknown.
FORWARD_RULES = ("forward-mismatch", "forward-raises", "inexact-forward")


def has_error(findings: Findings) -> bool:
    """Return whether at least one finding is an error."""
    return any(finding.severity == "error" for finding in findings)


def clearest(verdicts: Sequence[Findings], again: Sequence[Findings] = ()) -> Findings:
    """Combine the findings from several inputs into one list.

    The first verdict is about the caller's example. If its first error is about a Function inside a
    callable, or is not about gradient values, return only the example's findings.

    Random inputs reveal more wrong values than an example does. However, if the example shows the
    same error, the report shows an element of the example, because the caller knows it. If the name
    of the error depends on the input, the report uses the most frequent name. The inputs of a
    second run (``again``) also count.
    """
    wrong = [findings for findings in verdicts if has_error(findings)]
    if not wrong:
        told = {f.rule: f for findings in reversed(verdicts) for f in findings}
        return tuple(sorted(told.values(), key=_place))
    first = wrong[0][0]
    inside = "function" in first.evidence
    if wrong[0] is verdicts[0] and (inside or RULES[first.rule].family not in VALUE_FAMILIES):
        return wrong[0]
    votes = Counter(found[0].rule for found in (*wrong, *again[1:]) if has_error(found))
    most = max(votes[found[0].rule] for found in wrong)
    name = next(f[0].rule for f in reversed(wrong) if votes[f[0].rule] == most)
    return next(found for found in wrong if found[0].rule == name)


class Examiner(Protocol):
    """An object that collects evidence about one Function and judges it, in any process."""

    def collect(self, seed: int, *, thorough: bool) -> Sequence[Evidence]:
        """Run the Function on the example and on other inputs.

        Add the expected gradients to the evidence.

        If ``thorough`` is false, examine only gradients and their values.
        """

    def judge(
        self, evidence: Sequence[Evidence], seed: int, skip_rules: Collection[str] = ()
    ) -> list[Findings]:
        """Return the findings for each ``Evidence``.

        The first ``Evidence`` is about the example.
        """


@dataclass(frozen=True)
class Conclusion:
    """The result of an examination: the final findings, all earlier findings, and the evidence."""

    findings: Findings
    verdicts: Sequence[Findings]
    evidence: Sequence[Evidence]

    @property
    def has_error(self) -> bool:
        """Whether at least one finding is an error."""
        return has_error(self.findings)

    @property
    def is_wrong_only_elsewhere(self) -> bool:
        """Whether wrong values appear only for other inputs, in which several tensors vary.

        Some of these tensors may depend on each other, like scores and their softmax. If the
        example is at kinks, the property is false, because ``diagnose`` did not compare the
        example's gradients.
        """
        example = self.evidence[0]
        if any(avoided_kinks(example)):
            return False
        tensors = [value for value in example.inputs if is_float(value)]
        values = all(RULES[f.rule].family in VALUE_FAMILIES for f in _errors_of(self.findings))
        return self.has_error and values and len(tensors) > 1 and not has_error(self.verdicts[0])

    def with_errors_elsewhere_as_warnings(self) -> Conclusion:
        """If values are wrong only elsewhere, return a copy in which errors are warnings."""
        if not self.is_wrong_only_elsewhere:
            return self
        return replace(self, findings=tuple(map(as_warning, self.findings)))

    def require_gradient(self) -> None:
        """Raise :class:`CannotDiagnoseError` if the rules could not judge any of the gradients."""
        example = self.evidence[0]
        raw, failed = example.contract.direct, example.forward.failure
        if self.findings or any(evidence.values.vjps for evidence in self.evidence):
            return
        if failed or (raw and raw.failure):
            return
        raise CannotDiagnoseError(
            f"no output of {example.subject} is differentiable, so there is no gradient to check."
        )

    def why_not_compared(self, intentional: Collection[str] = ()) -> str:
        """Explain why ``diagnose`` did not compare any gradient of the example.

        Return ``""`` if it compared at least one.
        """
        return nothing_compared(self.evidence[0], intentional)

    def jacobians(self) -> Jacobians | None:
        """If the first finding is about wrong values, return the Jacobians that show it."""
        first = next(iter(self.findings), None)
        if first is None or RULES[first.rule].family not in VALUE_FAMILIES:
            return None
        for findings, evidence in zip(self.verdicts, self.evidence, strict=True):
            if first.severity == "error" and any(finding is first for finding in findings):
                return both_jacobians(evidence, first.evidence.get("input", ""))
        return None


def conclude(examiner: Examiner, seed: int, second_seed: int) -> Conclusion:
    """Return the final findings. Include errors only if a second run confirms them.

    The second run uses other random inputs. If it does not confirm any error, the examiner judges
    the evidence from the first run again. This time, it skips the rules that reported the errors,
    because those errors might have hidden other findings.

    Args:
        examiner: The object that collects evidence about one Function and judges it.
        seed: The seed of the first run.
        second_seed: The seed of the run that confirms errors.

    Returns:
        The findings, and the evidence for them.
    """
    evidence = examiner.collect(seed, thorough=True)
    verdicts = _judge(examiner, evidence, seed)
    findings = clearest(verdicts)
    if has_error(findings):
        errors = _errors(verdicts)
        thorough = any(RULES[name].family not in VALUE_FAMILIES for name in errors)
        again = examiner.collect(second_seed, thorough=thorough)
        second = _judge(examiner, again, second_seed)
        if errors & WITH_OTHERS:
            verdicts = _judge(examiner, evidence, seed, others=(*evidence, *again))
        findings = clearest([keep_confirmed(found, second) for found in verdicts], second)
        if not has_error(findings):
            others = _judge(examiner, evidence, seed, and_their_like(errors))
            findings = clearest([keep_confirmed(found, second) for found in others], second)
    return Conclusion(findings, verdicts, evidence)


# If one of these rules reports an error, the rules judge again with the evidence from all inputs of
# both runs. A wrong region says something about inputs that the diagnosis did not try, and all
# inputs together may show a region for a mismatch that no other rule explains.
WITH_OTHERS = {"wrong-region", "gradient-mismatch"}


def _judge(
    examiner: Examiner,
    evidence: Sequence[Evidence],
    seed: int,
    skip_rules: Collection[str] = (),
    others: Sequence[Evidence] = (),
) -> list[Findings]:
    """Return the findings for each ``Evidence``. For other numbers, keep only wrong gradients.

    The rules can compare each ``Evidence`` with the ``others``.
    """
    together = [
        replace(each, others=tuple(other for other in others if other is not each))
        for each in evidence
    ]
    verdicts = examiner.judge(together, seed, skip_rules)
    pairs = zip(verdicts, evidence, strict=True)
    return [_about_numbers(found, changed_numbers(evidence[0], each)) for found, each in pairs]


def _about_numbers(findings: Findings, numbers: Mapping[str, tuple[float, float]]) -> Findings:
    """Return the findings about wrong gradients, and state the numbers for which they are wrong.

    Leave out findings about ``forward``, because a reference may fit only the example's numbers.
    """
    if not numbers:
        return findings
    where = " and ".join(
        f"`{name}` = {new:g} instead of {old:g}" for name, (old, new) in numbers.items()
    )
    values = {name: new for name, (_, new) in numbers.items()}
    return tuple(
        replace(
            found,
            message=f"{found.message} This is so with {where}.",
            evidence={**found.evidence, "numbers": values},
        )
        for found in _errors_of(findings)
        if RULES[found.rule].family in VALUE_FAMILIES and found.rule not in FORWARD_RULES
    )


def as_warning(finding: Finding) -> Finding:
    """Convert an error that appears only on varied inputs to a warning with an explanation."""
    if finding.severity != "error":
        return finding
    where = (
        "" if "numbers" in finding.evidence else " This is so on other inputs than your example."
    )
    return replace(finding, severity="warning", message=f"{finding.message}{where} {ELSEWHERE}")


def as_error(finding: Finding, where: str) -> Finding:
    """Convert a warning about other inputs than the example to an error.

    ``diagnose`` only warns about wrong values that appear only for other inputs, because the
    caller's tensors may depend on each other. A grader knows whether they do.

    Args:
        finding: The warning.
        where: Words that name the other inputs, such as ``"on other inputs"``.

    Returns:
        The error, without the advice to pass a ``sampler``.
    """
    message = finding.message.removesuffix(f" {ELSEWHERE}")
    message = message.replace("on other inputs than your example", where)
    return replace(finding, severity="error", message=message)


ELSEWHERE = "If the arguments belong together, pass `sampler=`, which draws them together."


def _errors_of(findings: Findings) -> Iterator[Finding]:
    return (finding for finding in findings if finding.severity == "error")


def _errors(verdicts: Sequence[Findings]) -> set[str]:
    """Return the names of the rules that reported errors."""
    return {f.rule for findings in verdicts for f in findings if f.severity == "error"}


def and_their_like(names: Collection[str]) -> set[str]:
    """Return the given rules, and related rules that may report the same wrong gradient."""
    families = {RULES[name].family for name in names}.intersection(VALUE_FAMILIES)
    errors = (rule for rule in RULES.values() if rule.severity == "error")
    return {*names, *(rule.name for rule in errors if rule.family in families)}


def keep_confirmed(found: Findings, again: Sequence[Findings]) -> Findings:
    """Return the findings without the errors that a second run does not confirm.

    An error also counts as confirmed if a related rule reports it, because the name can differ on
    other random inputs.
    """
    families = {RULES[name].family for name in _errors(again)}
    return tuple(f for f in found if f.severity != "error" or RULES[f.rule].family in families)


def families_asked_inside(backward_inside: BackwardInside, *, twice: bool) -> tuple[str, ...]:
    """Return the families of rules that judge the Functions inside a callable.

    If the callable itself runs a backward pass, its result contains a gradient of the Function. A
    wrong gradient then makes the result wrong, and the callable's own gradients can still agree
    with that result. ``twice`` says whether second derivatives are required.
    """
    values = VALUE_FAMILIES if backward_inside else ()
    order = ("order",) if twice else ()
    return (*FAMILIES_ASKED_INSIDE, *values, *order)


def combine_findings(
    outside: Findings, inside: Findings, families: Collection[str] = FAMILIES_ASKED_INSIDE
) -> Findings:
    """Combine the findings about a callable with the findings about the Functions inside it.

    Errors in the callable can explain findings about the Functions, and vice versa. If both have
    errors, keep the inner Function's error, because it is more specific. A wrong derivative of an
    inner Function explains all wrong gradients of the callable.
    """
    derivatives = {*families} - {*FAMILIES_ASKED_INSIDE}
    if any(RULES[f.rule].family in derivatives for f in _errors_of(inside)):
        explained = {"backward-never-called", *VALUE_FAMILIES, "order"}
        outside = tuple(f for f in outside if not {f.rule, RULES[f.rule].family} & explained)
    asked = (f for f in inside if RULES[f.rule].family in families)
    new = tuple(f for f in asked if not _explained(f, outside))
    told = {finding.rule for finding in new}
    left = tuple(f for f in outside if f.rule not in told and not _explained(f, new))
    return tuple(sorted((*left, *new), key=_place))


def _explained(finding: Finding, by: Findings) -> bool:
    errors = {f.rule for f in by if f.severity == "error"}
    causes = errors | {RULES[name].family for name in errors}
    rule = RULES[finding.rule]
    explained = {what for name in errors for what in RULES[name].explains}
    return bool(causes.intersection(rule.after) or explained & {rule.name, rule.family})


def _place(finding: Finding) -> tuple[int, int]:
    return RANK[finding.severity], list(RULES).index(finding.rule)


# --------------------------------------------------------------------------------------------------
# A case for the doctor: the subject, its example inputs, and its declared properties.
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A subject with the caller's example and the subject's declared properties."""

    subject: Subject
    args: tuple[Any, ...]
    sampler: Sampler | None
    reference: Callable[..., Any] | None
    surrogate: Callable[..., Any] | None
    intentional: Collection[str]
    level: Level
    double_backward: bool | None

    def collect(self, seed: int, *, thorough: bool) -> list[Evidence]:
        """Return evidence from the example and from other inputs, with the expected gradients."""
        evidence = examine_samples(
            self.subject,
            self.args,
            self.sampler,
            seed,
            self._extra_probes if thorough else None,
            any_output=self.reference is not None,
            intentional=self.intentional,
        )
        known = [establish(each, self.reference, self.surrogate, seed) for each in evidence]
        return [each for each in known if not self._is_for_other_numbers(known[0], each)]

    def _is_for_other_numbers(self, example: Evidence, evidence: Evidence) -> bool:
        """Return whether the numbers changed but a declaration may fit only the old numbers."""
        if not changed_numbers(example, evidence):
            return False
        by_design = any(RULES[name].family in VALUE_FAMILIES for name in self.intentional)
        declared = self.surrogate is not None or by_design
        return declared or RULES["forward-mismatch"](evidence) is not None

    def collect_values(self, seed: int, *, explained: bool = True) -> list[Evidence]:
        """Return evidence from the example, limited to the gradients and their values."""
        seen = examine_case(
            self.subject, self.args, seed, intentional=self.intentional, explained=explained
        )
        return [establish(seen, self.reference, self.surrogate, seed)]

    @property
    def _extra_probes(self) -> tuple[Probe, ...]:
        return probes_for(self.level, self.double_backward)

    def _needs_second_derivatives(self, backward_inside: BackwardInside) -> bool:
        """Return whether the Functions inside a callable must have right second derivatives."""
        return backward_inside == "with create_graph" or self.double_backward is True

    def _extra_probes_inside(self, backward_inside: BackwardInside) -> tuple[Probe, ...]:
        twice = self._needs_second_derivatives(backward_inside)
        usual = probes_for(self.level, True if twice else None)
        return tuple(probe for probe in usual if probe not in ONLY_OF_A_CALLABLE)

    def judge(
        self, evidence: Sequence[Evidence], seed: int, skip_rules: Collection[str] = ()
    ) -> list[Findings]:
        """Return the findings for each ``Evidence``, including findings about inner Functions."""
        example, *others = [judge(each, self.intentional, skip_rules) for each in evidence]
        if self.subject.function is None:
            backward_inside = evidence[0].forward.backward_inside
            differences = has_error(example) or bool(backward_inside)
            inside = tuple(self._inside(evidence[0], seed, skip_rules, differences=differences))
            twice = self._needs_second_derivatives(backward_inside)
            families = families_asked_inside(backward_inside, twice=twice)
            example = combine_findings(example, inside, families)
        return [example, *others]

    def _inside(
        self, example: Evidence, seed: int, skip_rules: Collection[str], *, differences: bool
    ) -> Iterator[Finding]:
        """Yield the findings about the Functions that a callable calls.

        Each finding contains the Function's name.

        If the callable's gradients are correct, the Functions inside it are correct for the
        gradients that they receive. Finite differences of these Functions would not find a mistake
        and can be expensive, for example for a solver. This is not true if the callable itself runs
        a backward pass.
        """
        session = Session(self.subject, example.inputs, example.wanted, seed)
        around = self.subject.around
        for call in calls_in(session.run, around):
            # If an argument holds state, the copy may share it. All other reachable state is
            # borrowed anyway.
            if not all(is_plain(arg) or around.covers(arg) for arg in call.args):
                continue
            with suppress(CannotDiagnoseError):  # the doctor may be unable to examine its arguments
                inner = subject_of(call.function, len(call.args))
                inner = replace(inner, around=around, passed=call.passed)
                inner = choose_precision(inner, call.args, seed)
                evidence = examine_case(
                    inner,
                    call.args,
                    seed,
                    self._extra_probes_inside(example.forward.backward_inside),
                    differences=differences,
                    own=self._own_dtypes(call.args),
                    intentional=self.intentional,
                )
                known = establish(evidence, None, None, seed)
                by_design = self.surrogate is not None or declaration_of(call.function) is not None
                for found in judge(known, self.intentional, skip_rules):
                    is_about_gradients = RULES[found.rule].family not in FAMILIES_ASKED_INSIDE
                    if not (is_about_gradients and (by_design or may_be_intended(found))):
                        yield _named(found, call.function.__name__)

    def _own_dtypes(self, args: Sequence[Any]) -> tuple[torch.dtype | None, ...]:
        """Return the dtypes that the inner Functions receive in the caller's own call.

        These dtypes are known only if all of the caller's floating-point tensors have the same
        precision.
        """
        precisions = {v.dtype.to_real() for v in self.args if is_float(v)}
        if len(precisions) != 1:
            return ()
        real = precisions.pop()
        return tuple(
            None if not is_float(v) else real.to_complex() if v.is_complex() else real for v in args
        )


def _named(found: Finding, function: str) -> Finding:
    message = f"in `{function}`, {found.message}"
    return replace(found, message=message, evidence={**found.evidence, "function": function})
