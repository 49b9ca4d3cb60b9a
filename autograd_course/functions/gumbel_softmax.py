"""A sample from a categorical distribution that lets a gradient through."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot


def gumbel_noise(like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Return standard Gumbel noise ``-log(-log u)``, where ``u`` is uniform in [0, 1).

    Where ``u`` is 0 the noise is -inf, and that entry is not drawn.

    Args:
        like: The noise has the shape, the dtype and the device of this tensor.
        generator: PyTorch's random generator, for noise that you can repeat.

    Returns:
        The noise.

    Example:
        >>> import torch
        >>> gumbel_noise(torch.zeros(3, 4)).shape
        torch.Size([3, 4])
    """
    u = torch.rand(like.shape, generator=generator, dtype=like.dtype, device=like.device)
    return -(-u.log()).log()


def softmax_vjp(p: Tensor, g: Tensor) -> Tensor:
    """Return ``gᵀJ`` for a softmax along the last axis with the output ``p``: ``p ⊙ (g - g·p)``."""
    return p * (g - (g * p).sum(-1, keepdim=True))


class GumbelSoftmax(torch.autograd.Function):
    """Draw from ``softmax(logits)`` along the last axis, given the noise of the draw.

    Forward: ``p = softmax((logits + noise) / τ)``; soft ``y = p``, hard ``y`` is one-hot at the
    largest ``p`` (by the Gumbel-max trick an exact sample, whatever τ). Backward, for both,

    ``∂L/∂logits = ∂L/∂noise = p ⊙ (g - Σ g·p) / τ``, with ``g = ∂L/∂y``.

    Soft, that is the gradient. Hard, it is the declared surrogate ``h = p``: the true derivative of
    the one-hot is 0 wherever it exists.

    The noise is an argument, so that a draw can be repeated and its gradient tested; it comes from
    :func:`gumbel_noise`. Shapes: ``logits``, ``noise`` and ``y`` alike, (..., K). The temperature τ
    is a positive Python number and receives no gradient. Floating dtypes. Saves its inputs and
    rebuilds ``p``, which as a saved intermediate would have no graph. Twice differentiable.
    Sources: Jang, Gu and Poole 2017; Maddison, Mnih and Teh 2017.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, noise: Tensor, temperature: float = 1.0, hard: bool = False
    ) -> Tensor:
        """Return the sample, soft or one-hot, saving ``logits`` and ``noise``."""
        ctx.save_for_backward(logits, noise)
        ctx.temperature = temperature
        p = ((logits + noise) / temperature).softmax(-1)
        return one_hot(p.argmax(-1), p.shape[-1]).to(p.dtype) if hard else p

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of the soft sample, for ``logits`` and for ``noise``."""
        logits, noise = ctx.saved_tensors
        p = ((logits + noise) / ctx.temperature).softmax(-1)
        grad = softmax_vjp(p, grad_output) / ctx.temperature
        return *(grad if needed else None for needed in ctx.needs_input_grad[:2]), None, None
