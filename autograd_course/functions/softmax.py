"""Softmax, without its Jacobian."""

from typing import Any

import torch
from torch import Tensor


class Softmax(torch.autograd.Function):
    """Turn scores along one axis into weights that sum to 1.

    Forward: ``y_i = exp(x_i) / Σ_j exp(x_j)``. Backward, with ``g = ∂L/∂y``:
    ``∂L/∂x = y ∘ (g - Σ_j g_j y_j)``.

    The Jacobian ``diag(y) - y yᵀ`` is a diagonal and an outer product, so its product with ``g``
    needs one inner product a row and never the matrix. The output is saved, not the input.
    Shapes: ``x`` and ``y`` alike; ``dim`` is one axis. Real floating dtypes. Twice differentiable:
    a saved *output* carries its own graph.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int = -1) -> Tensor:
        """Return the weights, saving them."""
        y = torch.softmax(x, dim)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """Return ``y ∘ (g - Σ g y)``."""
        (y,) = ctx.saved_tensors
        return y * (grad_output - (grad_output * y).sum(ctx.dim, keepdim=True)), None
