"""Rules of linearity: a backward is a linear map of grad_output."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from autograd_course.doctor.evidence import Evidence, Pull
from autograd_course.doctor.mismatch import mismatches, plain, resolution, return_line, size
from autograd_course.doctor.probe import FAR
from autograd_course.doctor.rules.registry import Seen, rule

SLACK = 1e-9  # float64 loses far less than this on one multiplication by a power of two or 1000


def _grads(evidence: Evidence, name: str) -> tuple[Tensor | None, ...]:
    pull = evidence.pulls.get(name, Pull(()))
    return pull.grads


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two gradients agree up to rounding, relative to the larger of them."""
    if one is None or other is None:
        return (one is None) == (other is None)
    slack = max(SLACK, resolution(one)) * max(size(one), size(other))
    return bool(torch.allclose(one, other, rtol=0, atol=slack, equal_nan=True))


def _times(grad: Tensor | None, factor: float) -> Tensor | None:
    return None if grad is None else factor * grad


def _where(evidence: Evidence, holds: Callable[[int], bool]) -> str | None:
    """Return the name of the first wanted input for which a relation does not hold."""
    for slot, position in enumerate(evidence.wanted):
        if not holds(slot):
            return evidence.name(position)
    return None


@rule(
    "ignores-grad-output",
    "linearity",
    "error",
    "backward does not multiply by grad_output",
    hint="What backward returns is the upstream gradient times the local one: is grad_output in "
    "the "
    "formula of every gradient?",
    lesson="01_template",
    after=("contract",),
)
def ignores_grad_output(evidence: Evidence) -> Seen | None:
    once, twice, zero = (_grads(evidence, n) for n in ("random", "double", "zero"))
    if not (once and twice and zero):
        return None

    def depends(slot: int) -> bool:
        grad = once[slot]
        nothing = zero[slot]
        if grad is None or not bool(torch.isfinite(grad).all()) or not bool(grad.any()):
            return True
        constant = _same(grad, twice[slot])
        return not constant and not (
            nothing is not None and bool(nothing.any()) and not bool(torch.isnan(nothing).any())
        )

    name = _where(evidence, depends)
    if name is None:
        return None
    slot = [evidence.name(p) for p in evidence.wanted].index(name)
    if not _same(once[slot], twice[slot]):
        what = "is not zero when grad_output is zero: something is added to it"
    else:
        what = "stays the same when grad_output doubles"
    return Seen(
        f"the gradient of {name} {what}.",
        {"input": name, "line": return_line(evidence.backward_source)},
    )


@rule(
    "nonlinear-in-grad-output",
    "linearity",
    "error",
    "backward is not linear in grad_output",
    hint="A vector-Jacobian product is linear: no clamp, sign, abs, relu, square or comparison of "
    "grad_output. A clipped or guided backward that is meant so is declared with intentional=.",
    lesson="01_template",
    after=("contract", "ignores-grad-output"),
)
def nonlinear_in_grad_output(evidence: Evidence) -> Seen | None:
    b = {n: _grads(evidence, n) for n in ("random", "other", "sum", "double", "negative", "far")}
    if not all(b.values()):
        return None
    laws: dict[str, Callable[[int], bool]] = {
        "turning the sign of grad_output does not turn the sign of the gradient": lambda i: _same(
            b["negative"][i], _times(b["random"][i], -1.0)
        ),
        "doubling grad_output does not double the gradient": lambda i: _same(
            b["double"][i], _times(b["random"][i], 2.0)
        ),
        f"a grad_output {FAR:g} times as large does not give {FAR:g} times the "
        f"gradient": lambda i: _same(b["far"][i], _times(b["random"][i], FAR)),
        "the gradient for a sum of two cotangents is not the sum of their gradients": lambda i: (
            _same(b["sum"][i], _plus(b["random"][i], b["other"][i]))
        ),
    }
    for law, holds in laws.items():
        name = _where(evidence, holds)
        if name is not None:
            return Seen(
                f"{law} (of {name}).",
                {"input": name, "line": return_line(evidence.backward_source)},
            )
    return None


def _plus(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return one if other is None else other if one is None else one + other


@rule(
    "uniform-grad-output",
    "linearity",
    "error",
    "backward is right only for a constant grad_output",
    hint="Every element of the output has its own upstream gradient: use grad_output element by "
    "element, not its mean, its sum or its first entry.",
    lesson="01_template",
    after=("contract", "linearity"),
)
def uniform_grad_output(evidence: Evidence) -> Seen | None:
    outputs = (
        [g for g in evidence.pulls["random"].grad_outputs if g is not None]
        if evidence.pulls
        else []
    )
    if len(outputs) != 1 or outputs[0].numel() < 2:
        return None
    flat_one, flat_two = _grads(evidence, "random"), _grads(evidence, "other")
    for wrong in mismatches(evidence):
        uniform = _grads(evidence, "ones")[wrong.slot]
        one, two = flat_one[wrong.slot], flat_two[wrong.slot]
        if uniform is None or one is None or two is None or not bool(uniform.any()):
            continue
        c, d = _multiple(one, uniform), _multiple(two, uniform)
        if c is None or d is None or abs(c - d) < SLACK or _parallel_truth(wrong.truth, uniform):
            continue
        statistic = _statistic(outputs[0], c)
        return Seen(
            f"the gradient of {wrong.name} depends on grad_output only through one number"
            f"{statistic}: it is right, at best, when all its entries are equal.",
            {
                "input": wrong.name,
                "factor": plain(c),
                "line": return_line(evidence.backward_source),
            },
        )
    return None


def _multiple(grad: Tensor, of: Tensor) -> float | None:
    """Return c where ``grad = c · of``, or ``None``."""
    if grad.is_complex():
        return None
    c = float((grad * of).sum() / (of * of).sum())
    return c if math.isfinite(c) and _same(grad, c * of) else None


def _parallel_truth(truth: Tensor, of: Tensor) -> bool:
    known = ~torch.isnan(truth)
    return _multiple(truth[known], of[known]) is not None


def _statistic(g: Tensor, c: float) -> str:
    named = {"its mean": g.mean(), "its sum": g.sum(), "its first entry": g.reshape(-1)[0]}
    named["its largest entry"] = g.max()
    for name, value in named.items():
        if abs(float(value) - c) <= 1e-9 * max(1.0, abs(c)):
            return f", {name}"
    return ""
