"""The maximum along axes, its gradient shared among ties."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.shapes import kept_shape


class Max(torch.autograd.Function):
    """Take the largest element along one or several axes.

    Forward: ``y = max x`` over ``dim``. Backward: with ``M = 1`` where ``x`` equals the maximum and
    0 elsewhere, ``∂L/∂x = M / Σ_dim M · ∂L/∂y``.

    Where several elements are the largest, no derivative exists; they share the gradient equally,
    as in ``torch.amax``. (``torch.max`` with a ``dim`` gives all of it to one of them.)
    Shapes: ``x`` any; ``y`` is ``x`` without ``dim``, or with length 1 there if ``keepdim``.
    ``dim`` is one axis or several, not empty, negative ones from the end. Real floating dtypes.
    Twice differentiable (the second derivative is 0).
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dim: int | tuple[int, ...] = -1, keepdim: bool = False
    ) -> Tensor:
        """Return the maximum over ``dim``, saving which elements attain it."""
        largest = x.amax(dim, keepdim=True)
        ctx.save_for_backward(x == largest)
        ctx.dim = dim
        return largest if keepdim else x.amax(dim)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        """Return ``grad_output`` at the maximum, in equal shares where there are several."""
        (attained,) = ctx.saved_tensors
        shares = attained.to(grad_output.dtype) / attained.sum(ctx.dim, keepdim=True)
        return shares * grad_output.reshape(kept_shape(attained.shape, ctx.dim)), None, None
