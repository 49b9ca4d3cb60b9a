"""The square."""

from typing import Any

import torch
from torch import Tensor


class Square(torch.autograd.Function):
    """Square every element.

    Forward: ``y = x²``. Backward: ``∂L/∂x = 2·x·∂L/∂y``.

    Shapes: ``x`` and ``y`` alike, any shape. Any floating or complex dtype; the gradient has the
    dtype of ``x``. Twice differentiable: backward composes differentiable operations on the saved
    input.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``x²``, saving ``x``."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return ``2·x·grad_output`` (``x`` conjugated, as PyTorch's complex convention asks)."""
        (x,) = ctx.saved_tensors
        gradient: Tensor = 2 * x.conj() * grad_output
        return gradient
