"""Cartesian to polar coordinates: a Function with two outputs."""

from typing import Any

import torch
from torch import Tensor


class ToPolar(torch.autograd.Function):
    """Convert Cartesian to polar coordinates.

    Forward: ``r = √(x² + y²)`` and ``θ = atan2(y, x)``. In backward, each input gets a gradient
    from both outputs: ``∂L/∂x = cos θ · g_r - (sin θ / r) · g_θ`` and
    ``∂L/∂y = sin θ · g_r + (cos θ / r) · g_θ``.

    The derivative does not exist at the origin. There, ``backward`` returns ``∂L/∂x = g_r`` and
    ``∂L/∂y = 0`` and ignores ``g_θ``, so the gradient stays finite. Backward computes gradients
    only for inputs that require them. The Function saves its two outputs. Twice differentiable,
    because saved outputs have a graph.

    Args:
        x: Any shape, real floating-point dtype.
        y: The same shape as ``x``. The Function does not broadcast.

    Returns:
        The radius ``r`` and the angle ``θ`` in radians, each with the same shape as ``x``.

    Example:
        >>> import torch
        >>> ToPolar.apply(torch.tensor([3.0]), torch.tensor([4.0]))
        (tensor([5.]), tensor([0.9273]))
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return the radius and the angle, and save both."""
        r, theta = torch.hypot(x, y), torch.atan2(y, x)
        ctx.save_for_backward(r, theta)
        return r, theta

    @staticmethod
    def backward(
        ctx: Any, grad_r: Tensor, grad_theta: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of ``x`` and ``y``. An unused output's gradient is all zeros."""
        r, theta = ctx.saved_tensors
        needs_x, needs_y = ctx.needs_input_grad
        cos, sin = torch.cos(theta), torch.sin(theta)
        origin = r == 0
        grad_turn = torch.where(origin, 0, grad_theta / torch.where(origin, 1, r))
        return (
            cos * grad_r - sin * grad_turn if needs_x else None,
            sin * grad_r + cos * grad_turn if needs_y else None,
        )
