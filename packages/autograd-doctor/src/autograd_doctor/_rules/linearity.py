"""Rules that require ``backward`` to be linear in ``grad_output``."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from autograd_doctor._numerics.closeness import cancellation, resolution, same, size
from autograd_doctor._numerics.mismatch import mismatches, return_line
from autograd_doctor._rules.rule import UNUSABLE, Match, rule
from autograd_doctor.evidence import (
    DOUBLE,
    LARGE,
    LARGE_FACTOR,
    NEGATIVE,
    ONES,
    OTHER,
    RANDOM,
    SUM,
    ZERO,
    Cotangent,
    Evidence,
    VjpResult,
)
from autograd_doctor.formatting import element, number, plain, unraveled

ROUNDING = 1e-6  # relative to the gradient; float32 rounding in a linear backward is smaller

INEXACT = 0.05  # relative to the gradient, for a solver that iterates to a tolerance


def _grads(evidence: Evidence, name: Cotangent) -> tuple[Tensor | None, ...]:
    vjp = evidence.values.vjps.get(name, VjpResult(()))
    return vjp.grads


def _seen(
    evidence: Evidence, slot: int, law: str, times: str, seen: tuple[Tensor | None, ...]
) -> Match:
    """Report which condition for linearity the gradient violates, and show one element."""
    once, got, wanted = (torch.zeros(()) if t is None else t for t in seen)
    off = torch.nan_to_num((got - wanted).abs(), nan=torch.inf)
    index = unraveled(int(off.argmax()), off.shape)
    first, second, right = (number(plain(t.expand(off.shape)[index])) for t in (once, got, wanted))
    name = evidence.name(evidence.wanted[slot])
    where = element(name, index)
    text = f"{where}: gradient {first} for grad_output, {second} for {times}, should be {right}"
    return Match(
        law.format(name=name),
        {"input": name, "witness": text, "line": return_line(evidence.contract.backward_source)},
    )


@rule(
    "ignores-grad-output",
    "linearity",
    "error",
    "backward does not multiply by grad_output",
    hint="Multiply the local derivative by `grad_output` in every gradient that `backward` "
    "returns. If `backward` calls `torch.autograd.grad`, pass `grad_output` as `grad_outputs`.",
    lesson="01_template",
    after=UNUSABLE,
    by_design=("nonlinear-in-grad-output", "uniform-grad-output", "silent-double-backward"),
)
def ignores_grad_output(evidence: Evidence) -> Match | None:
    vjps = [_grads(evidence, name) for name in (RANDOM, DOUBLE, OTHER, ZERO)]
    if not all(vjps):
        return None
    for slot, (once, twice, other, zero) in enumerate(zip(*vjps, strict=True)):
        if once is None or not bool(torch.isfinite(once).all()) or not bool(once.any()):
            continue
        if same(once, twice) and same(once, other):
            law = "the gradient of `{name}` does not change when `grad_output` doubles."
            return _seen(evidence, slot, law, "2 · grad_output", (once, twice, 2 * once))
        if zero is not None and bool(zero.any()) and not bool(torch.isnan(zero).any()):
            law = (
                "the gradient of `{name}` is not zero when `grad_output` is zero, so `backward` "
                "adds something to it."
            )
            return _seen(evidence, slot, law, "0 · grad_output", (once, zero, None))
    return None


@rule(
    "nonlinear-in-grad-output",
    "linearity",
    "error",
    "backward is not linear in grad_output",
    hint="Do not apply `clamp`, `sign`, `abs`, `relu`, `square` or a comparison to `grad_output`: "
    "a vector-Jacobian product is linear in it.",
    lesson="01_template",
    after=(*UNUSABLE, "ignores-grad-output"),
)
def nonlinear_in_grad_output(evidence: Evidence) -> Match | None:
    b = {n: _grads(evidence, n) for n in (RANDOM, OTHER, *MULTIPLES, SUM)}
    if not all(b.values()):
        return None
    for vjp, (factor, law) in MULTIPLES.items():
        for slot, (once, got) in enumerate(zip(b[RANDOM], b[vjp], strict=True)):
            wanted = None if once is None else factor * once
            if not _agree(evidence, vjp, *_finite(got, wanted)):
                times = f"{factor:g} · grad_output"
                return _seen(evidence, slot, law, times, (once, got, wanted))
    for slot, (once, other, got) in enumerate(zip(b[RANDOM], b[OTHER], b[SUM], strict=True)):
        wanted = _plus(once, other)
        if not _agree(evidence, SUM, _where_finite(got, wanted), wanted):
            law = (
                "the gradient of `{name}` for the sum of two values of `grad_output` is not the "
                "sum of the two gradients."
            )
            return _seen(evidence, slot, law, "the sum of two", (once, got, wanted))
    return _lost_at_zero(evidence)


def _lost_at_zero(evidence: Evidence) -> Match | None:
    """Report a gradient that is nan if ``grad_output`` is zero, but finite otherwise.

    A masked loss, for example, produces zeros in ``grad_output``.
    """
    pairs = zip(_grads(evidence, RANDOM), _grads(evidence, ZERO), strict=False)
    for slot, (once, zero) in enumerate(pairs):
        if once is None or zero is None or not bool(torch.isfinite(once).all()):
            continue
        if bool(zero.isnan().any()):
            law = "the gradient of `{name}` is nan where `grad_output` is zero."
            seen = _seen(evidence, slot, law, "0 · grad_output", (once, zero, None))
            return replace(seen, hint=_DIVIDES)
    return None


_DIVIDES = "Do not divide by `grad_output`, or by a value that is zero where `grad_output` is zero."

MULTIPLES = {
    NEGATIVE: (-1.0, "negating `grad_output` does not negate the gradient of `{name}`."),
    DOUBLE: (2.0, "doubling `grad_output` does not double the gradient of `{name}`."),
    LARGE: (
        LARGE_FACTOR,
        f"multiplying `grad_output` by {LARGE_FACTOR:g} does not multiply the gradient of "
        f"`{{name}}` by {LARGE_FACTOR:g}.",
    ),
}


def _finite(got: Tensor | None, wanted: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return copies of two gradients with zeros where ``wanted`` is not finite.

    A multiple of a large gradient can overflow, so a comparison there proves nothing.
    """
    if got is None or wanted is None:
        return got, wanted
    known = torch.isfinite(wanted)
    return torch.where(known, got, 0), torch.where(known, wanted, 0)


def _where_finite(got: Tensor | None, wanted: Tensor | None) -> Tensor | None:
    """Return a copy of ``got`` that contains the non-finite elements of ``wanted``.

    Subtraction cannot compare non-finite elements, because ∞ - ∞ is nan.
    """
    if got is None or wanted is None:
        return got
    return torch.where(torch.isfinite(wanted), got, wanted)


def _agree(evidence: Evidence, vjp: Cotangent, got: Tensor | None, wanted: Tensor | None) -> bool:
    """Return whether two gradients agree up to rounding errors.

    The rounding errors can be large if terms cancel.
    """
    if same(got, wanted) or got is None or wanted is None:
        return same(got, wanted)
    off = (got - wanted).abs()
    inexact = INEXACT if evidence.values.inexact else 0.0
    coarseness = max(ROUNDING, inexact, _coarseness(evidence, vjp))
    slack = cancellation(evidence, vjp) + coarseness * size(wanted)
    return bool(torch.isfinite(off).all()) and size(off) <= slack


def _coarseness(evidence: Evidence, vjp: Cotangent) -> float:
    """Return the relative precision of the least precise cotangent.

    A cotangent is less precise if the output is in float32.
    """
    gs = evidence.values.vjps[vjp].grad_outputs
    return max(resolution(g) for g in gs if g is not None)


def _plus(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return one if other is None else other if one is None else one + other


@rule(
    "uniform-grad-output",
    "linearity",
    "error",
    "backward is right only for a constant grad_output",
    hint="Use `grad_output` elementwise, not its mean, its sum or its first element: every element "
    "of the output has its own upstream gradient.",
    lesson="01_template",
    after=(*UNUSABLE, "wrong-arity", "linearity"),
)
def uniform_grad_output(evidence: Evidence) -> Match | None:
    outputs = (
        [g for g in evidence.values.vjps[RANDOM].grad_outputs if g is not None]
        if evidence.values.vjps
        else []
    )
    if len(outputs) != 1 or outputs[0].numel() < 2:
        return None
    flat_one, flat_two = _grads(evidence, RANDOM), _grads(evidence, OTHER)
    for wrong in mismatches(evidence):
        uniform = _grads(evidence, ONES)[wrong.slot]
        one, two = flat_one[wrong.slot], flat_two[wrong.slot]
        if uniform is None or one is None or two is None or int(uniform.count_nonzero()) < 2:
            continue  # any two nonzero numbers are multiples of each other
        c, d = _multiple(one, uniform), _multiple(two, uniform)
        if c is None or d is None or _parallel_truth(wrong.truth, uniform):
            continue
        if not _everywhere(one, c * uniform):
            continue  # a very large element may hide differences at other elements
        statistic = _statistic(outputs[0], c)
        return Match(
            f"the gradient of `{wrong.name}` depends on `grad_output` only through a single number"
            f"{statistic}. It can be right only when all elements of `grad_output` are equal.",
            {
                "input": wrong.name,
                "factor": plain(c),
                "line": return_line(evidence.contract.backward_source),
            },
        )
    return None


def _multiple(grad: Tensor, of: Tensor) -> float | None:
    """Return the number c such that ``grad = c · of``, or ``None`` if there is no such number."""
    if grad.is_complex():
        return None
    c = float((grad * of).sum() / (of * of).sum())
    return c if math.isfinite(c) and same(grad, c * of) else None


def _everywhere(grad: Tensor, claimed: Tensor) -> bool:
    """Return whether all elements agree. The tolerance is relative to each element."""
    return bool(torch.isclose(grad, claimed, rtol=1e-3, atol=0).all())


def _parallel_truth(truth: Tensor, of: Tensor) -> bool:
    known = ~torch.isnan(truth)
    return _multiple(truth[known], of[known]) is not None


def _statistic(g: Tensor, c: float) -> str:
    for name, value in {"its mean": g.mean(), "its first element": g.reshape(-1)[0]}.items():
        if abs(float(value) - c) <= 1e-9 * max(1.0, abs(c)):
            return f", {name}"
    return ""
