"""``diagnose``: examine a Function, and say what is wrong with it by name."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.calls import is_float
from autograd_course.doctor.diagnosis import Diagnosis, DoctorError, Finding
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.guard import undisturbed
from autograd_course.doctor.judge import judge
from autograd_course.doctor.probe import probe
from autograd_course.doctor.rules import RULES
from autograd_course.doctor.subject import Subject, subject_of
from autograd_course.doctor.truth import establish

Sampler = Callable[[torch.Generator], Sequence[Any]]

EXAMINED = (
    "the contract with the engine (static methods, arity, shapes, dtypes, devices, in-place "
    "changes)",
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
    subject = subject_of(fn, len(args))
    verdicts = []
    with undisturbed(seed):
        for number, case in enumerate(_cases(args, sampler, seed)):
            evidence = _examine(subject, case, reference, surrogate, seed)
            if number and evidence.forward.failure:
                continue  # the variation left the Function's domain; the example did not
            verdicts.append(judge(evidence, designed))
    return Diagnosis(subject.name, _clearest(verdicts), EXAMINED)


def _require_rules(names: Collection[str]) -> None:
    for name in names:
        if name not in RULES:
            close = difflib.get_close_matches(name, RULES, 1)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            raise DoctorError(f"intentional= names no rule {name!r}.{meant}")


def _examine(
    subject: Subject,
    case: Sequence[Any],
    reference: Callable[..., Any] | None,
    surrogate: Callable[..., Any] | None,
    seed: int,
) -> Evidence:
    values = [_double(value) for value in case]
    evidence = probe(_in_double(subject), values, _wanted(case), seed)
    if reference is None:
        _require_numbers(evidence)
    return establish(evidence, reference, surrogate, seed)


def _wanted(case: Sequence[Any]) -> tuple[int, ...]:
    """Return the places to differentiate: the tensors that ask for it, or all floating ones."""
    floating = [i for i, value in enumerate(case) if is_float(value)]
    if not floating:
        raise DoctorError(
            "no input is a floating or complex tensor: pass at least one, as torch.randn(3, 4)."
        )
    asking = [i for i in floating if case[i].requires_grad]
    return tuple(asking or floating)


def _double(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    dtype = torch.complex128 if value.is_complex() else torch.float64
    return value.detach().to(dtype) if is_float(value) else value.detach()


def _in_double(subject: Subject) -> Subject:
    """Return the subject with a module's own parameters in float64, in a copy."""
    if not isinstance(subject.call, torch.nn.Module):
        return subject
    return replace(subject, call=copy.deepcopy(subject.call).double())


def _require_numbers(evidence: Evidence) -> None:
    """Refuse inputs on which forward gives nan: without a reference there is no truth there."""
    for k, output in enumerate(evidence.forward.outputs):
        if is_float(output) and bool(torch.isnan(output).any()):
            index = torch.isnan(output).nonzero()[0].tolist()
            raise DoctorError(
                f"forward of {evidence.subject} returned nan (output {k}, index {index}): pass "
                f"inputs "
                "inside its domain, or a reference= that says what is right there."
            )


def _cases(args: Sequence[Any], sampler: Sampler | None, seed: int) -> Iterator[Sequence[Any]]:
    """Yield the example, then other inputs: sampled, or the example varied at random."""
    rng = torch.Generator().manual_seed(seed)
    yield args
    if sampler is not None:
        for _ in range(2):
            yield tuple(sampler(rng))
    else:
        yield tuple(_varied(value, rng) for value in args)


def _varied(value: Any, rng: torch.Generator) -> Any:
    """Move a floating tensor's elements by up to a quarter of their size, keeping their signs."""
    if not is_float(value):
        return value
    noise = torch.rand(value.shape, generator=rng, dtype=torch.float64).to(value.device)
    moved = value.detach() * (0.75 + 0.5 * noise)
    if not bool(value.any()):
        moved = moved + noise - 0.5
    return moved.requires_grad_(value.requires_grad)


def _clearest(verdicts: Sequence[tuple[Finding, ...]]) -> tuple[Finding, ...]:
    """Return one verdict: the last with an error, since random inputs hide less than an example."""
    wrong = [v for v in verdicts if any(f.severity == "error" for f in v)]
    if wrong:
        same = [v for v in wrong if v[0].rule == wrong[-1][0].rule]
        return same[0]
    return tuple({f.rule: f for verdict in reversed(verdicts) for f in verdict}.values())
