"""A one-hot sample with a gradient that is right to second order."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from autograd_course.functions.gumbel_softmax import softmax_vjp


class ReinMax(torch.autograd.Function):
    """Draw one-hot from ``softmax(logits)`` along the last axis; ReinMax's gradient backward.

    Forward: ``y`` is one-hot at the largest ``logits + noise``. Backward: with ``p =
    softmax(logits)``, ``m = (p + y) / 2`` and ``J(q)ᵀg = q ⊙ (g - Σ g·q)``,

    ``∂L/∂logits := 2 J(m)ᵀg - ½ J(p)ᵀg``, with ``g = ∂L/∂y``.

    In expectation over the draw this is the gradient of ``E[L(y)]`` exactly where L is quadratic;
    the straight-through ``J(p)ᵀg`` is exact where L is linear. Declared surrogate: ``h = 2
    softmax(logits + c) - ½ softmax(logits)``, whose constant ``c = log m - logits`` makes the first
    softmax equal ``m``.

    ``noise`` is :func:`~autograd_course.functions.gumbel_softmax.gumbel_noise`; it decides which
    one-hot is drawn and receives no gradient. Shapes: ``logits``, ``noise`` and ``y`` alike, (...,
    K). Floating dtypes. Saves ``logits`` and ``y``. Twice differentiable: the second derivative is
    that of this formula, for the same draw.
    Source: Liu et al. 2023, Bridging Discrete and Backpropagation, arXiv:2304.08612.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, noise: Tensor) -> Tensor:
        """Return the one-hot sample, saving it with ``logits``."""
        choice = (logits + noise).argmax(-1)
        y = one_hot(choice, logits.shape[-1]).to(logits.dtype)
        ctx.save_for_backward(logits, y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, None]:
        """Return the second-order estimate for ``logits``."""
        if not ctx.needs_input_grad[0]:
            return None, None
        logits, y = ctx.saved_tensors
        y = y.detach()  # the draw is a constant; a saved output would bring its graph along
        p = logits.softmax(-1)
        second_order = 2 * softmax_vjp((p + y) / 2, grad_output)
        return second_order - 0.5 * softmax_vjp(p, grad_output), None
