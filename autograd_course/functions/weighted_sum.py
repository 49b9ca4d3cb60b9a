"""A weighted sum of two tensors, with a weight for each element."""

from typing import Any

import torch
from torch import Tensor


class WeightedSum(torch.autograd.Function):
    """Blend two tensors, with a weight for each element.

    Forward: ``z = w·x + (1 - w)·y``. Backward, with ``g = ∂L/∂z``: ``∂L/∂x = w·g``,
    ``∂L/∂y = (1 - w)·g`` and ``∂L/∂w = (x - y)·g``.

    Backward computes gradients only for inputs that require them. Twice differentiable.

    Args:
        x: Any shape, real floating-point dtype.
        y: The same shape as ``x``.
        w: The same shape as ``x``. The Function does not broadcast.

    Returns:
        ``z``, with the shape of the inputs.

    Raises:
        ValueError: The shapes differ.

    Example:
        >>> import torch
        >>> x, y, w = torch.tensor([4.0]), torch.tensor([8.0]), torch.tensor([0.75])
        >>> WeightedSum.apply(x, y, w)
        tensor([5.])
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, w: Tensor) -> Tensor:
        """Return ``w·x + (1 - w)·y`` and save the three inputs."""
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
