"""``diagnose``: examine a Function, and say what is wrong with it by name."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import torch

from autograd_course.doctor.calls import is_float
from autograd_course.doctor.cases import SPREADS, in_double, varied, wanted
from autograd_course.doctor.diagnosis import Diagnosis, DoctorError, Finding
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.guard import undisturbed
from autograd_course.doctor.judge import judge
from autograd_course.doctor.probe import probe
from autograd_course.doctor.rules import RULES
from autograd_course.doctor.subject import Subject, subject_of
from autograd_course.doctor.truth import establish

Sampler = Callable[[torch.Generator], Sequence[Any]]

SAMPLES = 2  # drawn from a sampler, beside the example

EXAMINED = (
    "the contract: methods, arity, shapes, dtypes, devices, in-place changes",
    "linearity in grad_output",
    "values against central differences in float64",
)


def diagnose(
    fn: Any,
    inputs: Any,
    *,
    reference: Callable[..., Any] | None = None,
    surrogate: Callable[..., Any] | None = None,
    intentional: Collection[str] = (),
    double_backward: bool | None = None,
    sampler: Sampler | None = None,
    seed: int = 0,
) -> Diagnosis:
    """Examine a custom autograd Function and name what is wrong with it.

    ``fn`` is a :class:`torch.autograd.Function` subclass (its ``apply`` is used) or any callable
    built on some. ``inputs`` are the example call's arguments, tensors and others, as for
    :func:`torch.autograd.gradcheck`; one tensor may stand alone. Every floating or complex tensor
    is differentiated, or, where some require grad, those alone. Work is done on float64 copies.

    ``reference`` is a differentiable callable with the same arguments: its outputs and its own
    autograd are the truth. Without it the truth comes from central differences of ``fn``'s forward.
    ``surrogate`` is a differentiable callable whose derivative ``fn``'s backward is declared to be
    (a straight-through estimator). ``intentional`` holds names of rules that are by design.
    ``sampler`` draws other inputs, ``rng -> inputs``; without it the example is varied.

    Raises :class:`DoctorError` for arguments it cannot examine. The caller's tensors, random state,
    default dtype and grad mode are left as they were.
    """
    args = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    designed = (intentional,) if isinstance(intentional, str) else tuple(intentional)
    _require_rules(designed)
    if double_backward:
        raise DoctorError(
            "double_backward=True is not examined yet: use torch.autograd.gradgradcheck."
        )
    subject = _in_double(subject_of(fn, len(args)))

    def verdict(evidence: Evidence) -> tuple[Finding, ...]:
        return judge(establish(evidence, reference, surrogate, seed), designed)

    with undisturbed(seed):
        evidence = [_probe(subject, case, seed) for case in (args, *_sampled(sampler, seed))]
        if reference is None:
            _require_numbers(evidence)
        if sampler is None:
            evidence += _variation(subject, args, seed)
        verdicts = [verdict(seen) for seen in evidence]
    return Diagnosis(subject.name, _clearest(verdicts), EXAMINED)


def _require_rules(names: Collection[str]) -> None:
    for name in names:
        if name not in RULES:
            close = difflib.get_close_matches(name, RULES, 1)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            raise DoctorError(f"intentional= names no rule {name!r}.{meant}")


def _probe(subject: Subject, case: Sequence[Any], seed: int) -> Evidence:
    return probe(subject, [in_double(value) for value in case], wanted(case), seed)


def _sampled(sampler: Sampler | None, seed: int) -> list[tuple[Any, ...]]:
    rng = torch.Generator().manual_seed(seed)
    return [] if sampler is None else [tuple(sampler(rng)) for _ in range(SAMPLES)]


def _variation(subject: Subject, args: Sequence[Any], seed: int) -> list[Evidence]:
    """Return evidence on the widest variation of the example that stays inside the domain."""
    rng = torch.Generator().manual_seed(seed)
    for spread in SPREADS:
        evidence = _probe(subject, varied(args, spread, rng), seed)
        if not evidence.forward.failure and not _nan_output(evidence):
            return [evidence]
    return []


def _in_double(subject: Subject) -> Subject:
    """Return the subject with a module's own parameters in float64, in a copy."""
    if not isinstance(subject.call, torch.nn.Module):
        return subject
    return replace(subject, call=copy.deepcopy(subject.call).double())


def _require_numbers(evidence: Sequence[Evidence]) -> None:
    """Refuse inputs on which forward gives nan: without a reference there is no truth there."""
    for seen in evidence:
        if place := _nan_output(seen):
            raise DoctorError(
                f"forward of {seen.subject} returned nan ({place}): pass inputs inside its domain, "
                "or a reference= that says what is right there."
            )


def _nan_output(evidence: Evidence) -> str:
    """Say where forward returned nan, ``""`` where it did not."""
    for k, output in enumerate(evidence.forward.outputs):
        if is_float(output) and bool(torch.isnan(output).any()):
            return f"output {k}, index {torch.isnan(output).nonzero()[0].tolist()}"
    return ""


def _clearest(verdicts: Sequence[tuple[Finding, ...]]) -> tuple[Finding, ...]:
    """Return one verdict: that on random inputs, which hide less than an example.

    Where the example shows the same, its own witness is the one that the caller knows.
    """
    wrong = [v for v in verdicts if any(f.severity == "error" for f in v)]
    if wrong:
        return next(v for v in wrong if v[0].rule == wrong[-1][0].rule)
    return tuple({f.rule: f for verdict in reversed(verdicts) for f in verdict}.values())
