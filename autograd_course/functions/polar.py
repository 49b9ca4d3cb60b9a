"""Cartesian to polar coordinates: a Function with two outputs."""

from typing import Any

import torch
from torch import Tensor


class ToPolar(torch.autograd.Function):
    """Turn Cartesian into polar coordinates.

    Forward: ``r = √(x² + y²)``, ``θ = atan2(y, x)`` in radians. Backward, each input collecting
    from both outputs: ``∂L/∂x = cos θ · g_r - (sin θ / r) · g_θ`` and
    ``∂L/∂y = sin θ · g_r + (cos θ / r) · g_θ``.

    Shapes: ``x``, ``y``, ``r`` and ``θ`` alike; it does not broadcast. Real floating dtypes. Saves
    its two outputs. At the origin, where the derivative does not exist, ``g_r`` goes to ``x`` and
    ``g_θ`` to neither, so the gradient stays finite.
    A gradient is computed only for an input that asks for one. Twice differentiable: saved
    *outputs* carry their own graph.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return radius and angle, saving both."""
        r, theta = torch.hypot(x, y), torch.atan2(y, x)
        ctx.save_for_backward(r, theta)
        return r, theta

    @staticmethod
    def backward(
        ctx: Any, grad_r: Tensor, grad_theta: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of ``x`` and ``y``; an unused output's gradient arrives as zeros."""
        r, theta = ctx.saved_tensors
        needs_x, needs_y = ctx.needs_input_grad
        cos, sin = torch.cos(theta), torch.sin(theta)
        origin = r == 0
        grad_turn = torch.where(origin, 0, grad_theta / torch.where(origin, 1, r))
        return (
            cos * grad_r - sin * grad_turn if needs_x else None,
            sin * grad_r + cos * grad_turn if needs_y else None,
        )
