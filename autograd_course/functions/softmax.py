"""Softmax, with a backward that never builds the Jacobian."""

from typing import Any

import torch
from torch import Tensor


class Softmax(torch.autograd.Function):
    """Turn scores along one dim into weights that sum to 1.

    Forward: ``y_i = exp(x_i) / Σ_j exp(x_j)``. Backward, with ``g = ∂L/∂y``:
    ``∂L/∂x = y ∘ (g - Σ_j g_j y_j)``.

    The Jacobian ``diag(y) - y yᵀ`` is a diagonal matrix minus an outer product. Its product with
    ``g`` therefore takes only one inner product per row, and backward never builds the full matrix.
    The Function saves the output, not the input. Twice differentiable, because a saved output has a
    graph.

    Args:
        x: Real floating-point dtype.
        dim: The dim along which the weights sum to 1.

    Returns:
        The weights, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> Softmax.apply(torch.zeros(4))
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int = -1) -> Tensor:
        """Return the weights and save them."""
        y = torch.softmax(x, dim)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """Return ``y ∘ (g - Σ g y)``."""
        (y,) = ctx.saved_tensors
        return y * (grad_output - (grad_output * y).sum(ctx.dim, keepdim=True)), None
