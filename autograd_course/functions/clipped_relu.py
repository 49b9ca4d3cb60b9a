"""A ReLU with a ceiling."""

from typing import Any

import torch
from torch import Tensor


class ClippedReLU(torch.autograd.Function):
    """Clip every element to the interval from 0 to ``ceiling``.

    Forward: ``y = min(max(x, 0), ceiling)``. Backward: ``∂L/∂x = ∂L/∂y`` where
    ``0 < x < ceiling``, else 0.

    At the kinks ``x = 0`` and ``x = ceiling`` the derivative does not exist; the gradient there is
    0, as in ``torch.nn.functional.relu6``. (``torch.clamp`` takes 1 there in PyTorch 2.13.)
    Shapes: ``x`` and ``y`` alike, any shape. ``ceiling`` is a positive Python number and receives
    no gradient. Real floating dtypes; the gradient has the dtype of ``x``. Saves one boolean mask,
    a byte an element. Twice differentiable (the second derivative is 0).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, ceiling: float = 6.0) -> Tensor:
        """Return ``x`` clipped to ``[0, ceiling]``, saving where it was not clipped."""
        ctx.save_for_backward((x > 0) & (x < ceiling))
        return x.clamp(0.0, ceiling)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """Return ``grad_output`` where the input was not clipped, 0 elsewhere."""
        (inside,) = ctx.saved_tensors
        return torch.where(inside, grad_output, 0), None
