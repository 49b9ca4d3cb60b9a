"""Rounding whose gradient passes as if it were not there."""

from typing import Any

import torch
from torch import Tensor


class RoundSTE(torch.autograd.Function):
    """Round every element to the nearest integer, halves to the even one; straight through.

    Forward: ``y = round(x)``. Declared surrogate: ``h(x) = x``, so ``∂L/∂x := ∂L/∂y`` by design;
    the true derivative is 0 wherever it exists.

    Shapes: ``x`` and ``y`` alike, any shape. Real floating dtypes; the gradient has the dtype of
    ``x``. Saves nothing. Twice differentiable (the surrogate's second derivative is 0).
    Source: Bengio, Léonard and Courville 2013, arXiv:1308.3432.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``round(x)``."""
        return x.round()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return ``grad_output``."""
        return grad_output.clone()  # a gradient of its own: whoever edits it edits no other
