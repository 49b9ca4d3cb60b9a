"""A ReLU with a ceiling."""

from typing import Any

import torch
from torch import Tensor


class ClippedReLU(torch.autograd.Function):
    """Clip each element to the interval from 0 to ``ceiling``.

    Forward: ``y = min(max(x, 0), ceiling)``. Backward: ``∂L/∂x = ∂L/∂y`` where
    ``0 < x < ceiling``, and 0 elsewhere.

    The derivative does not exist at the kinks ``x = 0`` and ``x = ceiling``. The gradient there is
    0, as in ``torch.nn.functional.relu6``. (In PyTorch 2.13, the gradient of ``torch.clamp`` is 1
    there.) The Function saves a boolean mask, which takes one byte per element. Twice
    differentiable: the second derivative is 0.

    Args:
        x: Any shape, real floating-point dtype.
        ceiling: A positive Python number. It has no gradient.

    Returns:
        The clipped tensor, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> ClippedReLU.apply(torch.tensor([-1.0, 3.0, 8.0]), 6.0)
        tensor([0., 3., 6.])
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, ceiling: float = 6.0) -> Tensor:
        """Return ``x`` clipped to ``[0, ceiling]`` and save a mask of the unclipped elements."""
        ctx.save_for_backward((x > 0) & (x < ceiling))
        return x.clamp(0.0, ceiling)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """Return ``grad_output`` for the unclipped elements, and 0 elsewhere."""
        (inside,) = ctx.saved_tensors
        return torch.where(inside, grad_output, 0), None
