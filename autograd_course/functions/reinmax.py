"""A one-hot sample with a second-order accurate gradient."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from autograd_course.functions.gumbel_softmax import softmax_vjp


class ReinMax(torch.autograd.Function):
    """Sample a one-hot vector from ``softmax(logits)``, with the ReinMax gradient.

    Forward: ``y`` is one-hot at the largest ``logits + noise``, along the last dim. Backward: with
    ``p = softmax(logits)``, ``m = (p + y) / 2`` and ``J(q)ᵀg = q ⊙ (g - Σ g·q)``,

    ``∂L/∂logits := 2 J(m)ᵀg - ½ J(p)ᵀg``, with ``g = ∂L/∂y``.

    If L is quadratic, the expectation of this estimate is the exact gradient of ``E[L(y)]``. For
    the straight-through estimate ``J(p)ᵀg``, this holds only if L is linear. Declared surrogate:
    ``h = 2 softmax(logits + c) - ½ softmax(logits)``, where the constant ``c = log m - logits``
    makes the first softmax equal to ``m``.

    The Function saves ``logits`` and ``y``. Twice differentiable: the second derivative is the
    derivative of this formula for the same sample.

    Args:
        logits: ``(..., K)``, floating-point dtype.
        noise: Noise from :func:`~autograd_course.functions.noise.gumbel_noise`, with the same shape
            as ``logits``. It determines the sampled class and has no gradient.

    Returns:
        The one-hot sample, with the same shape as ``logits``.

    Example:
        >>> import torch
        >>> ReinMax.apply(torch.tensor([0.0, 2.0, 1.0]), torch.zeros(3))
        tensor([0., 1., 0.])

    Source: Liu et al., "Bridging discrete and backpropagation", arXiv:2304.08612, 2023.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, noise: Tensor) -> Tensor:
        """Return the one-hot sample and save it with ``logits``."""
        choice = (logits + noise).argmax(-1)
        y = one_hot(choice, logits.shape[-1]).to(logits.dtype)
        ctx.save_for_backward(logits, y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, None]:
        """Return the second-order estimate of the gradient of ``logits``."""
        if not ctx.needs_input_grad[0]:
            return None, None
        logits, y = ctx.saved_tensors
        y = y.detach()  # the sample is a constant, but a saved output has a graph
        p = logits.softmax(-1)
        second_order = 2 * softmax_vjp((p + y) / 2, grad_output)
        return second_order - 0.5 * softmax_vjp(p, grad_output), None
