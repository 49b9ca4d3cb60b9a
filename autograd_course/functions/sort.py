"""Sorting along the last axis: one output with a gradient, one without."""

from typing import Any

import torch
from torch import Tensor


class Sort(torch.autograd.Function):
    """Sort the last axis; return the values and where each of them was.

    Forward: ``values[..., i] = x[..., indices[..., i]]``, in order. Backward takes each gradient
    back to where its value came from: ``∂L/∂x[..., indices[..., i]] = ∂L/∂values[..., i]``. The
    indices have no gradient.

    Shapes: ``x``, ``values`` and ``indices`` alike, one axis or more. ``descending`` is a flag.
    Real floating dtypes; ``indices`` are int64. Equal elements keep their order, and so each has
    the gradient of its own place. Saves the indices only. Twice differentiable (backward is linear
    in its argument and does not depend on the values of ``x``).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
        """Return sorted values and indices, saving the indices."""
        values, indices = torch.sort(x, dim=-1, descending=descending, stable=True)
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        return values, indices

    @staticmethod
    def backward(ctx: Any, grad_values: Tensor, grad_indices: Tensor) -> tuple[Tensor, None]:
        """Return every gradient to its place; ``grad_indices`` means nothing."""
        (indices,) = ctx.saved_tensors
        return torch.zeros_like(grad_values).scatter(-1, indices, grad_values), None
