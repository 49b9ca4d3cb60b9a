"""Rounding with a straight-through gradient."""

from typing import Any

import torch
from torch import Tensor


class RoundSTE(torch.autograd.Function):
    """Round each element to the nearest integer, with a straight-through gradient.

    Forward: ``y = round(x)``, which rounds halves to the nearest even integer. Declared surrogate:
    ``h(x) = x``, so ``∂L/∂x := ∂L/∂y`` by design. The true derivative is 0 wherever it exists.

    The Function saves nothing. Twice differentiable: the second derivative of the surrogate is 0.

    Args:
        x: Any shape, real floating-point dtype.

    Returns:
        The rounded tensor, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> RoundSTE.apply(torch.tensor([0.4, 0.5, 1.5]))
        tensor([0., 0., 2.])

    Source: Bengio, Léonard and Courville, "Estimating or propagating gradients through stochastic
    neurons", arXiv:1308.3432, 2013.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``round(x)``."""
        return x.round()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return ``grad_output``."""
        return grad_output.clone()  # a copy, so that changing it does not change another gradient
