"""Soft thresholding: shrink each element toward zero."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.shapes import sum_to_shape


class SoftThreshold(torch.autograd.Function):
    """Move each element toward 0 by a threshold. Elements within the threshold become 0.

    Forward: ``y = sign(x) · max(|x| - t, 0)``. Backward, with ``g = ∂L/∂y``: where ``|x| > t``,
    ``∂L/∂x = g``, and ``-sign(x) · g`` is added to ``∂L/∂t``. Elsewhere, both are 0. This includes
    the kinks ``|x| = t``, as in ``torch.nn.functional.softshrink``.

    The Function saves the sign of the output. Backward computes gradients only for inputs that
    require them. Twice differentiable: the second derivative is 0.

    Args:
        x: Any shape, real floating-point dtype.
        threshold: A nonnegative tensor with the same dtype as ``x`` and a shape that broadcasts to
            ``x``.

    Returns:
        The shrunken tensor, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> SoftThreshold.apply(torch.tensor([-3.0, 0.5, 2.0]), torch.tensor(1.0))
        tensor([-2.,  0.,  1.])
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: Tensor) -> Tensor:
        """Return the shrunken ``x`` and save the sign of the output."""
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
