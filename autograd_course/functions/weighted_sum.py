"""A weighted sum of two tensors, with a weight for every element."""

from typing import Any

import torch
from torch import Tensor


class WeightedSum(torch.autograd.Function):
    """Blend two tensors by a third.

    Forward: ``z = w·x + (1 - w)·y``. Backward: ``∂L/∂x = w·g``, ``∂L/∂y = (1 - w)·g`` and
    ``∂L/∂w = (x - y)·g``, where ``g = ∂L/∂z``.

    Shapes: ``x``, ``y``, ``w`` and ``z`` alike; it does not broadcast. Real floating dtypes; each
    gradient has its input's dtype. A gradient is computed only for an input that asks for one.
    Twice differentiable.

    Raises ``ValueError`` if the shapes differ.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        """Return ``w·x + (1 - w)·y``, saving the three inputs."""
        if not x.shape == y.shape == w.shape:
            raise ValueError(
                f"WeightedSum needs three tensors of one shape, "
                f"got {tuple(x.shape)}, {tuple(y.shape)} and {tuple(w.shape)}"
            )
        ctx.save_for_backward(x, y, w)
        return w * x + (1 - w) * y

    @staticmethod
    def backward(
        ctx: Any, grad_output: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return the gradients of ``x``, ``y`` and ``w``."""
        x, y, w = ctx.saved_tensors
        needs_x, needs_y, needs_w = ctx.needs_input_grad
        return (
            w * grad_output if needs_x else None,
            (1 - w) * grad_output if needs_y else None,
            (x - y) * grad_output if needs_w else None,
        )
