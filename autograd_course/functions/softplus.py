"""A smooth ReLU, differentiable to any order from its output."""

from typing import Any

import torch
from torch import Tensor


class Softplus(torch.autograd.Function):
    """Smooth ``max(x, 0)``, element by element, saving nothing but its output.

    Forward: ``y = log(1 + exp(x))``. Backward: ``∂L/∂x = σ(x) ∂L/∂y`` with
    ``σ(x) = 1 - exp(-y)``.

    The logistic ``σ(x)`` would be at hand in forward, but as an intermediate it is a constant to
    backward, and the second derivative would be incomplete. The output carries a graph: backward
    differentiates through this Function again, so every order is right.
    Shapes: ``x`` and ``y`` alike, any shape. Real floating dtypes; the gradient has the dtype of
    ``x``.

    Source: C. Dugas et al., "Incorporating second-order functional knowledge for better option
    pricing", 2001 (softplus).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``log(1 + exp(x))``, saving it."""
        y = torch.nn.functional.softplus(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return ``(1 - exp(-y)) · grad_output``."""
        (y,) = ctx.saved_tensors
        return -torch.expm1(-y) * grad_output  # expm1: 1 - exp(-y) loses its digits at small y
