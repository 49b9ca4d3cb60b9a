"""Ranks with a gradient."""

from typing import Any

import torch
from torch import Tensor


class SoftRank(torch.autograd.Function):
    """Rank the elements of each row, softly: 1 for the smallest, n for the largest.

    Forward: ``r_i = ½ + Σ_j σ((x_i - x_j) / τ)``; each sigmoid asks how far ``x_i`` stands above
    ``x_j``, the one of ``i`` with itself is ½, and as ``τ → 0`` the ranks become those of sorting.
    Backward, with ``S_ij = σ'((x_i - x_j) / τ) / τ``, which is symmetric, and ``g = ∂L/∂r``:
    ``∂L/∂x_k = g_k Σ_j S_kj - Σ_i g_i S_ik``: ``x_k`` moves its own rank, and everyone else's.

    Shapes: ``x`` and ``r`` are ``(..., n)``; memory is of the order n² a row. ``temperature`` τ > 0
    is a Python number and receives no gradient. Real floating dtypes. Twice differentiable. Source:
    Qin, Liu and Li 2010 (the sum of sigmoids).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, temperature: float = 1.0) -> Tensor:
        """Return the soft ranks along the last axis, saving ``x``."""
        ctx.save_for_backward(x)
        ctx.temperature = temperature
        return 0.5 + above(x, temperature).sum(-1)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """Return the row term minus the column term."""
        (x,) = ctx.saved_tensors
        s = above(x, ctx.temperature)
        slope = s * (1 - s) / ctx.temperature
        row = grad_output * slope.sum(-1)
        column = (grad_output[..., None] * slope).sum(-2)
        return row - column, None


def above(x: Tensor, temperature: float) -> Tensor:
    """Return ``σ((x_i - x_j) / τ)`` for all pairs: ``(..., n, n)``."""
    return torch.sigmoid((x[..., :, None] - x[..., None, :]) / temperature)
