"""Decide whether numbers agree up to rounding and the tolerance of the expected value."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from autograd_doctor._numerics.tensors import is_float
from autograd_doctor.evidence import RANDOM, Cotangent, Evidence, Expected, VjpResult

_SHORTER = {torch.bfloat16: 2e-2, torch.float16: 2e-3}
_SINGLE = 1e-5
SLACK = 1e-9  # float64 loses far less in one multiplication by a power of two or by 1000
# relative to grad_output times forward's typical slope: float64 rounding, with a margin
CANCELLATION = 1e-12


def within(actual: Tensor, expected: Expected) -> Tensor:
    """Return a mask of the elements that equal the expected gradient within its tolerance."""
    return (actual - expected.value).abs() <= expected.tolerance


def resolution(grad: Tensor) -> float:
    """Return the relative precision with which ``backward`` actually computed a float64 gradient.

    If ``backward`` uses a lower-precision dtype internally, that dtype can represent the gradient
    exactly. A separate rule reports this case, so the rounding errors of the lower precision must
    not count as wrong values.
    """
    # float32 can represent all numbers of the shorter dtypes
    if grad.is_complex() or not _holds(torch.float32, grad):
        return 0.0
    return next((p for dtype, p in _SHORTER.items() if _holds(dtype, grad)), _SINGLE)


def _holds(dtype: torch.dtype, grad: Tensor) -> bool:
    return torch.equal(grad, grad.to(dtype).to(grad.dtype))


def size(grad: Tensor) -> float:
    """Return the largest finite magnitude in a tensor, or 0 if there is none."""
    if not grad.numel():
        return 0.0
    largest = float(grad.abs().max())
    if math.isfinite(largest):
        return largest
    finite = grad[torch.isfinite(grad)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def identical(one: Tensor | None, other: Tensor | None) -> bool:
    """Return whether two gradients are exactly equal or both missing. NaN does not equal NaN."""
    if one is None or other is None:
        return one is other
    comparable = one.dtype == other.dtype != torch.complex32
    return one is other or (comparable and torch.equal(one, other))


def same(one: Tensor | None, other: Tensor | None) -> bool:
    """Return whether two gradients agree up to rounding, relative to the larger of the two."""
    if one is None or other is None or identical(one, other):
        return (one is None) == (other is None)
    slack = max(SLACK, resolution(one)) * max(size(one), size(other))
    return bool(torch.allclose(one, other, rtol=0, atol=slack, equal_nan=True))


def cancellation(evidence: Evidence, vjp: Cotangent = RANDOM) -> float:
    """Return the largest value that rounding can produce at an element whose gradient should be 0.

    One example is the gradient of the sum of a softmax.
    """
    sent = evidence.values.vjps.get(vjp, VjpResult(())).grad_outputs
    outputs = (out for out in evidence.forward.outputs if is_float(out))
    upstream, rise, run = (
        max((size(t) for t in tensors if t is not None), default=0.0)
        for tensors in (sent, outputs, (evidence.inputs[i] for i in evidence.wanted))
    )
    return CANCELLATION * upstream * max(1.0, rise / run if run else 1.0)
