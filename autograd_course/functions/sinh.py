"""The hyperbolic sine. Backward uses only the output and is differentiable to any order."""

from typing import Any

import torch
from torch import Tensor


class Sinh(torch.autograd.Function):
    """Compute the hyperbolic sine and save only the output.

    Forward: ``y = sinh(x)``. Backward: ``∂L/∂x = √(1 + y²) · ∂L/∂y``, which equals
    ``cosh(x) · ∂L/∂y`` because ``cosh² - sinh² = 1``.

    If ``forward`` saved ``cosh(x)``, the saved tensor would be a constant for backward, and the
    second derivative would be 0. The output has a graph, so derivatives of every order are correct.
    ``torch.hypot`` computes the root without overflowing in ``y²``.

    Args:
        x: Any shape, real floating-point dtype.

    Returns:
        The hyperbolic sine, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> Sinh.apply(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 1.1752])

    Source: NIST Digital Library of Mathematical Functions, 4.35.11.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``sinh(x)`` and save it."""
        y = torch.sinh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return ``√(1 + y²) · grad_output``."""
        (y,) = ctx.saved_tensors
        return torch.hypot(torch.ones_like(y), y) * grad_output
