"""Sort along the last dim. The values have a gradient, but the indices do not."""

from typing import Any

import torch
from torch import Tensor


class Sort(torch.autograd.Function):
    """Sort along the last dim, and return the values and their original indices.

    Forward: ``values[..., i] = x[..., indices[..., i]]``, in order. Backward moves each gradient to
    the original position of its value: ``∂L/∂x[..., indices[..., i]] = ∂L/∂values[..., i]``. The
    indices have no gradient.

    The sort is stable, so equal elements keep their order. The Function saves only the indices.
    Twice differentiable: ``backward`` is linear in its argument and does not depend on the values
    of ``x``.

    Args:
        x: At least one dim, real floating-point dtype.
        descending: Whether the largest value comes first.

    Returns:
        The sorted values and their indices (int64), both with the same shape as ``x``.

    Example:
        >>> import torch
        >>> Sort.apply(torch.tensor([3.0, 1.0, 2.0]))
        (tensor([1., 2., 3.]), tensor([1, 2, 0]))
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
        """Return the sorted values and their indices, and save the indices."""
        values, indices = torch.sort(x, dim=-1, descending=descending, stable=True)
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        return values, indices

    @staticmethod
    def backward(ctx: Any, grad_values: Tensor, grad_indices: Tensor) -> tuple[Tensor, None]:
        """Move each gradient to the original position of its value. Ignore ``grad_indices``."""
        (indices,) = ctx.saved_tensors
        return torch.zeros_like(grad_values).scatter(-1, indices, grad_values), None
