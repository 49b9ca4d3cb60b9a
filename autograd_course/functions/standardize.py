"""Batch normalization without parameters: mean 0 and variance 1."""

from typing import Any

import torch
from torch import Tensor


class Standardize(torch.autograd.Function):
    """Subtract the mean and divide by the standard deviation, along one or more dims.

    Forward: ``y = (x - μ) / √(v + ε)``, with the mean ``μ`` and the biased variance ``v`` over
    ``dim``. Backward, with ``g = ∂L/∂y`` and means over ``dim``:
    ``∂L/∂x = (g - mean(g) - y · mean(g · y)) / √(v + ε)``.

    For ``ε = 0``, the expression in parentheses is a projection of ``g``. It removes the component
    of ``g`` along the vector of ones, because adding a constant to ``x`` does not change ``y``. It
    also removes the component along ``y``, because scaling ``x`` does not change ``y``. Twice
    differentiable: ``y`` is an output, and backward recomputes the standard deviation.

    Args:
        x: Any shape, real floating-point dtype.
        dim: One or more dims. The default is the batch dim 0.
        eps: ``ε``, a small positive number.

    Returns:
        The normalized tensor, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> Standardize.apply(torch.tensor([1.0, 2.0, 3.0]))
        tensor([-1.2247,  0.0000,  1.2247])

    Source: Ioffe and Szegedy, "Batch normalization", 2015.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int | tuple[int, ...] = 0, eps: float = 1e-5) -> Tensor:
        """Normalize ``x`` to mean 0 and variance 1 along ``dim``. Save the input and the output."""
        y = (x - x.mean(dim, keepdim=True)) / deviation(x, dim, eps)
        ctx.save_for_backward(x, y)
        ctx.dim, ctx.eps = dim, eps
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        """Return the projected ``grad_output``, divided by the standard deviation."""
        x, y = ctx.saved_tensors
        mean = grad_output.mean(ctx.dim, keepdim=True)
        along = (grad_output * y).mean(ctx.dim, keepdim=True)
        return (grad_output - mean - y * along) / deviation(x, ctx.dim, ctx.eps), None, None


def deviation(x: Tensor, dim: int | tuple[int, ...], eps: float) -> Tensor:
    """Return ``√(v + eps)``, where the biased variance ``v`` divides by N, not by N - 1."""
    return torch.sqrt(x.var(dim, correction=0, keepdim=True) + eps)
