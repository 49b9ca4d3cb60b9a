"""Gradient reversal: nothing forward, the opposite backward."""

from typing import Any

import torch
from torch import Tensor


class GradientReversal(torch.autograd.Function):
    """Let values through, and turn their gradient around.

    Forward: ``y = x``. Backward: ``∂L/∂x = -λ · ∂L/∂y``, with ``λ = strength``.

    What lies after it descends the loss; what lies before it climbs. The gradient is not the
    forward's, by design: diagnose it with ``surrogate=lambda x, strength: -strength * x``. Shapes:
    ``x`` and ``y`` alike, any shape. ``strength`` is a Python number and receives no gradient.
    Floating or complex dtypes. ``y`` is a copy: the input itself would come back as a view of it.
    Twice differentiable in the sense of its own backward. Source: Ganin and Lempitsky 2015.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, strength: float = 1.0) -> Tensor:
        """Return a copy of ``x``."""
        ctx.strength = strength
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """Return ``-strength · grad_output``."""
        return -ctx.strength * grad_output, None
