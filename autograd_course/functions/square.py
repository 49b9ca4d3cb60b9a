"""The square of each element."""

from typing import Any

import torch
from torch import Tensor


class Square(torch.autograd.Function):
    """Square each element.

    Forward: ``y = x²``. Backward: ``∂L/∂x = 2·x·∂L/∂y``. For complex ``x``, the factor is the
    conjugate of ``2·x``.

    You can differentiate this Function any number of times, because ``backward`` applies
    differentiable operations to a saved input.

    Args:
        x: Any shape, floating-point or complex.

    Returns:
        The squares, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> Square.apply(torch.tensor([1.0, -2.0, 3.0]))
        tensor([1., 4., 9.])
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``x²`` and save ``x``."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return ``2·x·grad_output``, with ``x`` conjugated if it is complex."""
        (x,) = ctx.saved_tensors
        gradient: Tensor = 2 * x.conj() * grad_output
        return gradient
