"""Check whether the gradient agrees with the slope of forward along random directions.

For each direction and cotangent, this module compares two numbers: ⟨g, J v⟩, from finite
differences of forward, and ⟨B(g), v⟩, from backward. A wrong element anywhere makes the two numbers
differ. If they agree, no Jacobian is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from autograd_doctor._numerics.finite_differences import as_real, flat
from autograd_doctor._numerics.tensors import is_float
from autograd_doctor.evidence import DirectionalDerivatives, Evidence, VjpResult

RELATIVE = 1e-7  # relative to the projected gradient: float64 loses far less
SHARP = 1e-5  # a direction with a larger error proves nothing


def projections_agree(evidence: Evidence) -> bool:
    """Return whether the projections show that every compared gradient is correct."""
    slopes = evidence.values.slopes
    if slopes is None or not bool(slopes.smooth.all()):
        return False
    vjps = [vjp for name, vjp in evidence.values.vjps.items() if name.is_compared]
    return all(not vjp.failure and agrees(evidence, slopes, vjp) for vjp in vjps)


def agrees(evidence: Evidence, slopes: DirectionalDerivatives, vjp: VjpResult) -> bool:
    """Return whether a gradient agrees with the slope of forward along every direction."""
    g = flat_cotangent(evidence, vjp.grad_outputs)
    expected, error = slopes.matrix.T @ g, 3 * (slopes.error.T @ g.abs())
    projected, size = along_directions(slopes, vjp)
    tolerance = error + RELATIVE * size + 1e-12
    sharp = error <= SHARP * torch.maximum(size, expected.abs()) + 1e-9
    return bool((((projected - expected).abs() <= tolerance) & sharp).all())


def deviation(evidence: Evidence, slopes: DirectionalDerivatives) -> float:
    """Return the relative error of the compared gradients along the random directions.

    The error is infinite if it is unknown. Otherwise, it is relative to the largest gradient over
    all cotangents, after all cotangents are scaled to the same length. A single gradient is not
    enough because it could be zero, like the gradient of a softmax for a constant cotangent.
    """
    vjps = [vjp for name, vjp in evidence.values.vjps.items() if name.is_compared]
    if not vjps or any(vjp.failure for vjp in vjps):
        return math.inf
    offs, sizes = [], []
    for vjp in vjps:
        g = flat_cotangent(evidence, vjp.grad_outputs)
        expected = slopes.matrix.T @ g
        projected, size = along_directions(slopes, vjp)
        length = float(g.norm()) or 1.0
        offs.append(float((projected - expected).abs().max()) / length)
        sizes.append(float(torch.maximum(size, expected.abs()).max()) / length)
    if not all(map(math.isfinite, (*offs, *sizes))):
        return math.inf
    return max(offs) / max(sizes) if max(sizes) else 0.0


def flat_cotangent(evidence: Evidence, grad_outputs: Sequence[Tensor | None]) -> Tensor:
    """Return the cotangents of all outputs as one vector.

    Outputs that are unused or do not require grad receive no cotangent, so their part of the vector
    is zero.
    """
    forward = evidence.forward
    asked = zip(forward.outputs, forward.requires_grad, strict=True)
    outputs = [(out, asking) for out, asking in asked if is_float(out)]
    return flat(
        [
            torch.zeros_like(out) if g is None or not asking else g
            for (out, asking), g in zip(outputs, grad_outputs, strict=True)
        ]
    )


def along_directions(slopes: DirectionalDerivatives, vjp: VjpResult) -> tuple[Tensor, Tensor]:
    """For each direction, return ⟨B(g), v⟩ and the magnitude of its terms."""
    total = torch.zeros(slopes.matrix.shape[1], dtype=torch.float64, device=slopes.matrix.device)
    squares = torch.zeros_like(total)
    for grad, vectors in _arrived(vjp, slopes):
        terms = vectors * as_real(grad).reshape(-1, 1).double()
        total, squares = total + terms.sum(0), squares + terms.square().sum(0)
    return total, squares.sqrt()


def _arrived(vjp: VjpResult, slopes: DirectionalDerivatives) -> Iterator[tuple[Tensor, Tensor]]:
    for grad, vectors in zip(vjp.grads, slopes.vectors, strict=True):
        if grad is not None:
            yield grad, vectors
