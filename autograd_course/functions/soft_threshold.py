"""Soft thresholding: shrink toward zero, and stop there."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.shapes import sum_to_shape


class SoftThreshold(torch.autograd.Function):
    """Shrink every element by a threshold; what is smaller becomes 0.

    Forward: ``y = sign(x) · max(|x| - t, 0)``. Backward, with ``g = ∂L/∂y``: where ``|x| > t``,
    ``∂L/∂x = g`` and ``∂L/∂t`` collects ``-sign(x) · g``; elsewhere both are 0, at the kinks
    ``|x| = t`` too, as in ``torch.nn.functional.softshrink``.

    Shapes: ``x`` and ``y`` alike; ``threshold`` (not negative) broadcasts to ``x``. Real floating
    dtypes, one for both. Saves the sign of the output: all that backward needs. A gradient is
    computed only for an input that asks for one. Twice differentiable (the second derivative is 0).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: Tensor) -> Tensor:
        """Return the shrunken ``x``, saving where it was not cut to 0, and on which side."""
        beyond = torch.where(x.abs() > threshold, x.sign(), 0)
        ctx.save_for_backward(beyond)
        ctx.shape = threshold.shape
        return x * beyond.abs() - beyond * threshold

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of ``x`` and ``threshold``."""
        (beyond,) = ctx.saved_tensors
        needs_x, needs_threshold = ctx.needs_input_grad
        return (
            beyond.abs() * grad_output if needs_x else None,
            sum_to_shape(-beyond * grad_output, ctx.shape) if needs_threshold else None,
        )
