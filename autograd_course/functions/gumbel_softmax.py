"""A sample from a categorical distribution, with a gradient for the logits."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot


def softmax_vjp(p: Tensor, g: Tensor) -> Tensor:
    """Return ``p ⊙ (g - g·p)``, the VJP of a softmax along the last dim with output ``p``."""
    return p * (g - (g * p).sum(-1, keepdim=True))


class GumbelSoftmax(torch.autograd.Function):
    """Sample from ``softmax(logits)`` along the last dim, using noise that the caller passes.

    Forward: ``p = softmax((logits + noise) / τ)``. A soft sample is ``y = p``. A hard sample is
    one-hot at the largest ``p``. By the Gumbel-max trick, a hard sample is an exact sample for
    every ``τ``. Backward, in both cases:

    ``∂L/∂logits = ∂L/∂noise = p ⊙ (g - Σ g·p) / τ``, with ``g = ∂L/∂y``.

    For a soft sample, this is the gradient. For a hard sample, it is the gradient of the declared
    surrogate ``h = p``, because the true derivative of the one-hot vector is 0 wherever it exists.

    The noise is an argument so that you can reproduce a sample and test its gradient. The Function
    saves its inputs and recomputes ``p``, because a saved intermediate would have no graph. Twice
    differentiable.

    Args:
        logits: ``(..., K)``, floating-point dtype.
        noise: Noise from :func:`~autograd_course.functions.noise.gumbel_noise`, with the same shape
            as ``logits``.
        temperature: ``τ``, a positive Python number. It has no gradient.
        hard: Whether the sample is one-hot.

    Returns:
        The sample, with the same shape as ``logits``.

    Example:
        >>> import torch
        >>> logits = torch.tensor([0.0, 2.0, 1.0])
        >>> GumbelSoftmax.apply(logits, torch.zeros(3), 1.0, True)
        tensor([0., 1., 0.])

    Sources: Jang, Gu and Poole 2017; Maddison, Mnih and Teh 2017.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, noise: Tensor, temperature: float = 1.0, hard: bool = False
    ) -> Tensor:
        """Return the sample, and save ``logits`` and ``noise``."""
        ctx.save_for_backward(logits, noise)
        ctx.temperature = temperature
        p = ((logits + noise) / temperature).softmax(-1)
        return one_hot(p.argmax(-1), p.shape[-1]).to(p.dtype) if hard else p

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the soft sample, the same for ``logits`` and ``noise``."""
        logits, noise = ctx.saved_tensors
        p = ((logits + noise) / ctx.temperature).softmax(-1)
        grad = softmax_vjp(p, grad_output) / ctx.temperature
        return *(grad if needed else None for needed in ctx.needs_input_grad[:2]), None, None
