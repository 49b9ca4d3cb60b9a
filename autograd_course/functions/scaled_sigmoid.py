"""A sigmoid with gain and slope, whose backward needs only the output."""

from typing import Any

import torch
from torch import Tensor


class ScaledSigmoid(torch.autograd.Function):
    """A sigmoid that rises to ``gain`` with steepness ``slope``.

    Forward: ``y = gain · σ(slope · x)``. Backward: ``∂L/∂x = slope · y · (1 - y / gain) · ∂L/∂y``.

    The derivative is a function of the output, so the output is saved and the input may be freed.
    Shapes: ``x`` and ``y`` alike, any shape. ``gain`` (not 0) and ``slope`` are Python numbers and
    receive no gradient. Floating dtypes; the gradient has the dtype of ``x``. Twice differentiable:
    a saved *output* carries its own graph.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: float = 1.0, slope: float = 1.0) -> Tensor:
        """Return ``gain · σ(slope · x)``, saving the result."""
        y = gain * torch.sigmoid(slope * x)
        ctx.save_for_backward(y)
        ctx.gain, ctx.slope = gain, slope
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        """Return ``slope · y · (1 - y / gain) · grad_output``, and ``None`` for the two numbers."""
        (y,) = ctx.saved_tensors
        return ctx.slope * y * (1 - y / ctx.gain) * grad_output, None, None
