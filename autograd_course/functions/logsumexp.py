"""Log-sum-exp that neither overflows nor trips over a fully masked row."""

import math
from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.shapes import kept_shape


class LogSumExp(torch.autograd.Function):
    """Sum in the domain of logarithms.

    Forward: ``y = log Σ_dim exp(x) = m + log Σ_dim exp(x - m)``, with ``m`` the maximum, so that no
    exponent is above 0. Backward: ``∂L/∂x = exp(x - y) · ∂L/∂y``; the factor is the softmax.

    An element ``-∞`` adds nothing and has gradient 0. A row of nothing but ``-∞`` (all masked) has
    ``y = -∞``, as in ``torch.logsumexp``, and gradient 0, where that has nan. There ``m`` would be
    ``-∞`` and ``x - m`` nan, so ``m`` is replaced by 0; likewise ``y`` in backward. Shapes: ``x``
    any; ``y`` is ``x`` without ``dim``, or with length 1 there if ``keepdim``. ``dim`` is one axis
    or several, not empty. Real floating dtypes.

    Twice differentiable: the softmax is rebuilt from input and output. Saved from forward it would
    be a constant, and the second derivative 0 without a word.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dim: int | tuple[int, ...] = -1, keepdim: bool = False
    ) -> Tensor:
        """Return ``log Σ exp(x)``, saving input and output."""
        m = x.amax(dim, keepdim=True)
        m = torch.where(m.isinf(), 0, m)
        total = torch.exp(x - m).sum(dim, keepdim=keepdim)
        y = m.reshape(total.shape) + total.log()  # no view, so that it may be changed in place
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
