"""The Gaussian error linear unit, in its exact form."""

import math
from typing import Any

import torch
from torch import Tensor


class GELU(torch.autograd.Function):
    """Weigh every element by the share of a normal distribution that lies below it.

    Forward: ``y = x · Φ(x)``, ``Φ(x) = (1 + erf(x / √2)) / 2``. Backward:
    ``∂L/∂x = (Φ(x) + x · φ(x)) · ∂L/∂y``, with the density ``φ(x) = exp(-x² / 2) / √(2π)``.

    Shapes: ``x`` and ``y`` alike, any shape. Real floating dtypes. Saves ``x`` only. Twice
    differentiable. Source: Hendrycks and Gimpel 2016; ``torch.nn.functional.gelu`` is faster.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``x · Φ(x)``, saving ``x``."""
        ctx.save_for_backward(x)
        return x * normal_cdf(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return ``(Φ(x) + x · φ(x)) · grad_output``."""
        (x,) = ctx.saved_tensors
        density = torch.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
        gradient: Tensor = (normal_cdf(x) + x * density) * grad_output
        return gradient


def normal_cdf(x: Tensor) -> Tensor:
    """Return ``Φ(x)``, the share of a standard normal distribution below ``x``."""
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))
