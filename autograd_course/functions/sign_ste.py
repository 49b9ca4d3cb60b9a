"""A sign whose gradient passes as if it were not there."""

from typing import Any

import torch
from torch import Tensor


class SignSTE(torch.autograd.Function):
    """Binarize every element; straight through backward.

    Forward: ``y = +1`` where ``x ≥ 0``, else ``-1``. Declared surrogate: ``h(x) = x``, so
    ``∂L/∂x := ∂L/∂y`` by design; the true derivative is 0 wherever it exists.

    At 0 the value is +1, so that two values suffice; ``torch.sign`` has a third one, 0, there.
    Shapes: ``x`` and ``y`` alike, any shape. Real floating dtypes; the gradient has the dtype of
    ``x``. Saves nothing. Twice differentiable (the surrogate's second derivative is 0).
    Source: Hinton 2012 (lectures), Bengio, Léonard and Courville 2013, arXiv:1308.3432.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the sign of each element, +1 at 0."""
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return ``grad_output``."""
        return grad_output.clone()  # a gradient of its own: whoever edits it edits no other
