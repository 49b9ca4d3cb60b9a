"""The Gaussian error linear unit, in its exact form."""

import math
from typing import Any

import torch
from torch import Tensor


class GELU(torch.autograd.Function):
    """Multiply each element by the probability that a standard normal variable is below it.

    Forward: ``y = x · Φ(x)`` with ``Φ(x) = (1 + erf(x / √2)) / 2``. Backward:
    ``∂L/∂x = (Φ(x) + x · φ(x)) · ∂L/∂y``, with the density ``φ(x) = exp(-x² / 2) / √(2π)``.

    The Function saves only ``x``. Twice differentiable. ``torch.nn.functional.gelu`` is faster.

    Args:
        x: Any shape, real floating-point dtype.

    Returns:
        The activation, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> GELU.apply(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.1587,  0.0000,  0.8413])

    Source: Hendrycks and Gimpel, "Gaussian error linear units", 2016.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``x · Φ(x)`` and save ``x``."""
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
    """Return ``Φ(x)``, the cumulative distribution function of the standard normal distribution."""
    return 0.5 * (1 + torch.erf(x / math.sqrt(2)))
