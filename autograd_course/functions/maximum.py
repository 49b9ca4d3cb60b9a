"""The maximum along one or more dims. Tied elements share its gradient."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.shapes import kept_shape


class Max(torch.autograd.Function):
    """Take the maximum over one or more dims.

    Forward: ``y = max x`` over ``dim``. Backward: with ``M = 1`` where ``x`` equals the maximum and
    0 elsewhere, ``∂L/∂x = M / Σ_dim M · ∂L/∂y``.

    If several elements tie for the maximum, the derivative does not exist. The tied elements share
    the gradient equally, as in ``torch.amax``. (``torch.max`` with a ``dim`` passes the whole
    gradient to one of them.) Twice differentiable: the second derivative is 0.

    Args:
        x: Real floating-point dtype.
        dim: One or more dims, but not an empty tuple. A negative dim counts from the end.
        keepdim: Whether ``y`` keeps each reduced dim with size 1.

    Returns:
        The maximum. The reduced dims are removed, or have size 1 if ``keepdim`` is true.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1.0, 5.0, 5.0]], requires_grad=True)
        >>> torch.autograd.grad(Max.apply(x, 1), x)[0]
        tensor([[0.0000, 0.5000, 0.5000]])
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dim: int | tuple[int, ...] = -1, keepdim: bool = False
    ) -> Tensor:
        """Return the maximum over ``dim`` and save a mask of the elements equal to it."""
        largest = x.amax(dim, keepdim=True)
        ctx.save_for_backward(x == largest)
        ctx.dim = dim
        return largest if keepdim else x.amax(dim)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        """Return ``grad_output`` at the maximum. Tied elements get equal shares of the gradient."""
        (attained,) = ctx.saved_tensors
        shares = attained.to(grad_output.dtype) / attained.sum(ctx.dim, keepdim=True)
        return shares * grad_output.reshape(kept_shape(attained.shape, ctx.dim)), None, None
