"""Gradient reversal: the identity in forward, and the negated gradient in backward."""

from typing import Any

import torch
from torch import Tensor


class GradientReversal(torch.autograd.Function):
    """Return the input unchanged, and reverse its gradient.

    Forward: ``y = x``. Backward: ``∂L/∂x = -λ · ∂L/∂y``, with ``λ = strength``.

    During training, the layers after this Function learn to decrease the loss, and the layers
    before it learn to increase the loss. By design, this is not the gradient of ``forward``, so
    pass ``surrogate=lambda x, strength: -strength * x`` to ``diagnose``. The output is a copy. If
    ``forward`` returned ``x`` itself, PyTorch would turn the output into a view of ``x``. Twice
    differentiable: the second derivative is the derivative of ``backward``.

    Args:
        x: Any shape, floating-point or complex.
        strength: The factor ``λ``, a Python number. It has no gradient.

    Returns:
        A copy of ``x``.

    Example:
        >>> import torch
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> torch.autograd.grad(GradientReversal.apply(x, 0.5).sum(), x)[0]
        tensor([-0.5000, -0.5000])

    Source: Ganin and Lempitsky, "Unsupervised domain adaptation by backpropagation", 2015.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, strength: float = 1.0) -> Tensor:
        """Return a copy of ``x``."""
        ctx.strength = strength
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """Return ``-strength · grad_output``."""
        return -ctx.strength * grad_output, None
