"""Differentiable ranks."""

from typing import Any

import torch
from torch import Tensor


class SoftRank(torch.autograd.Function):
    """Compute smooth ranks of each row, from 1 for the smallest element to n for the largest.

    Forward: ``r_i = ½ + Σ_j σ((x_i - x_j) / τ)``. Each sigmoid compares two elements. Comparing an
    element with itself gives ½. As ``τ → 0``, ``r`` approaches the exact ranks. Backward, with
    ``S_ij = σ'((x_i - x_j) / τ) / τ``, which is symmetric, and ``g = ∂L/∂r``:
    ``∂L/∂x_k = g_k Σ_j S_kj - Σ_i g_i S_ik``. The first sum is the effect of ``x_k`` on its own
    rank. The second sum is its effect on all ranks.

    Each row needs memory proportional to n². Twice differentiable.

    Args:
        x: ``(..., n)``, real floating-point dtype.
        temperature: ``τ``, a positive Python number. It has no gradient.

    Returns:
        The ranks, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> SoftRank.apply(torch.tensor([30.0, 10.0, 20.0]), 0.1)
        tensor([3., 1., 2.])

    Source: Qin, Liu and Li, "A general approximation framework for direct optimization of
    information retrieval measures", 2010.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, temperature: float = 1.0) -> Tensor:
        """Return the soft ranks along the last dim and save ``x``."""
        ctx.save_for_backward(x)
        ctx.temperature = temperature
        return 0.5 + above(x, temperature).sum(-1)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """Return each element's own-rank term minus its term from all ranks."""
        (x,) = ctx.saved_tensors
        s = above(x, ctx.temperature)
        slope = s * (1 - s) / ctx.temperature
        row = grad_output * slope.sum(-1)
        column = (grad_output[..., None] * slope).sum(-2)
        return row - column, None


def above(x: Tensor, temperature: float) -> Tensor:
    """Return ``σ((x_i - x_j) / τ)`` for all pairs, with the shape ``(..., n, n)``."""
    return torch.sigmoid((x[..., :, None] - x[..., None, :]) / temperature)
