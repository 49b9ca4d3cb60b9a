"""A sigmoid with a gain and a slope. Its backward needs only the output."""

from typing import Any

import torch
from torch import Tensor


class ScaledSigmoid(torch.autograd.Function):
    """Compute a sigmoid that rises to ``gain`` with steepness ``slope``.

    Forward: ``y = gain · σ(slope · x)``. Backward: ``∂L/∂x = slope · y · (1 - y / gain) · ∂L/∂y``.

    The derivative is a function of the output. The Function therefore saves only the output, and
    PyTorch can free the input. Twice differentiable, because a saved output has a graph.

    Args:
        x: Any shape, floating-point dtype.
        gain: A nonzero Python number. It has no gradient.
        slope: A Python number. It has no gradient.

    Returns:
        The sigmoid, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> ScaledSigmoid.apply(torch.tensor([0.0]), 4.0)
        tensor([2.])
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: float = 1.0, slope: float = 1.0) -> Tensor:
        """Return ``gain · σ(slope · x)`` and save it."""
        y = gain * torch.sigmoid(slope * x)
        ctx.save_for_backward(y)
        ctx.gain, ctx.slope = gain, slope
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        """Return ``slope · y · (1 - y / gain) · grad_output``, and None for the two numbers."""
        (y,) = ctx.saved_tensors
        return ctx.slope * y * (1 - y / ctx.gain) * grad_output, None, None
