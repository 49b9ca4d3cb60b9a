"""A log-sum-exp that does not overflow and that accepts fully masked rows."""

import math
from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.shapes import kept_shape


class LogSumExp(torch.autograd.Function):
    """Compute the logarithm of a sum of exponentials.

    Forward: ``y = log Σ_dim exp(x) = m + log Σ_dim exp(x - m)``, where ``m`` is the maximum, so
    that no exponent is above 0. Backward: ``∂L/∂x = exp(x - y) · ∂L/∂y``. The factor ``exp(x - y)``
    is the softmax.

    An element ``-∞`` adds nothing to the sum, and its gradient is 0. If all elements of a row are
    ``-∞`` (a fully masked row), ``y`` is ``-∞``, as in ``torch.logsumexp``. The gradient of this
    row is 0, while ``torch.logsumexp`` gives nan. For such a row, ``m`` would be ``-∞`` and
    ``x - m`` would be nan. Therefore, forward uses 0 for ``m``, and backward uses 0 for ``y``.

    Twice differentiable, because backward computes the softmax from the saved input and output. A
    softmax saved by ``forward`` would be a constant, and the second derivative would be 0 without
    an error.

    Args:
        x: Real floating-point dtype.
        dim: One or more dims, but not an empty tuple.
        keepdim: Whether ``y`` keeps each reduced dim with size 1.

    Returns:
        The log-sum-exp. The reduced dims are removed, or have size 1 if ``keepdim`` is true.

    Example:
        >>> import torch
        >>> LogSumExp.apply(torch.tensor([[100.0, 100.0], [-torch.inf, -torch.inf]]))
        tensor([100.6931,     -inf])
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dim: int | tuple[int, ...] = -1, keepdim: bool = False
    ) -> Tensor:
        """Return ``log Σ exp(x)``, and save the input and the output."""
        m = x.amax(dim, keepdim=True)
        m = torch.where(m.isinf(), 0, m)
        total = torch.exp(x - m).sum(dim, keepdim=keepdim)
        y = m.reshape(total.shape) + total.log()  # not a view, so that it may be changed in place
        ctx.save_for_backward(x, y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        """Return ``softmax(x) · grad_output``."""
        x, y = ctx.saved_tensors
        kept = kept_shape(x.shape, ctx.dim)
        y = y.masked_fill(y == -math.inf, 0).reshape(kept)
        return torch.exp(x - y) * grad_output.reshape(kept), None, None
