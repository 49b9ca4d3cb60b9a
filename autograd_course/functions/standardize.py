"""Batch normalization without parameters: mean 0, variance 1."""

from typing import Any

import torch
from torch import Tensor


class Standardize(torch.autograd.Function):
    """Subtract the mean and divide by the standard deviation, along one or several axes.

    Forward: ``y = (x - μ) / √(v + ε)``, with mean ``μ`` and biased variance ``v`` over ``dim``.
    Backward, with ``g = ∂L/∂y`` and means over ``dim``:
    ``∂L/∂x = (g - mean(g) - y · mean(g · y)) / √(v + ε)``.

    For ``ε = 0`` the bracket is a projection: it takes from ``g`` what points along the ones
    (shifting all of ``x`` changes nothing) and along ``y`` (stretching changes nothing).
    Shapes: ``x`` and ``y`` alike; ``dim`` is one axis or several, 0 (the batch) by default. Real
    floating dtypes. Twice differentiable: ``y`` is an output, the deviation is computed anew.
    Source: Ioffe and Szegedy 2015.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int | tuple[int, ...] = 0, eps: float = 1e-5) -> Tensor:
        """Return ``x`` with mean 0 and variance 1 along ``dim``, saving input and output."""
        y = (x - x.mean(dim, keepdim=True)) / deviation(x, dim, eps)
        ctx.save_for_backward(x, y)
        ctx.dim, ctx.eps = dim, eps
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        """Return the projected ``grad_output``, divided by the deviation."""
        x, y = ctx.saved_tensors
        mean = grad_output.mean(ctx.dim, keepdim=True)
        along = (grad_output * y).mean(ctx.dim, keepdim=True)
        return (grad_output - mean - y * along) / deviation(x, ctx.dim, ctx.eps), None, None


def deviation(x: Tensor, dim: int | tuple[int, ...], eps: float) -> Tensor:
    """Return ``√(v + eps)``, with the biased variance ``v`` (divided by N, not N - 1)."""
    return torch.sqrt(x.var(dim, correction=0, keepdim=True) + eps)
