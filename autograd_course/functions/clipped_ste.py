"""A sign whose gradient passes inside a window only."""

from typing import Any

import torch
from torch import Tensor


class ClippedSTE(torch.autograd.Function):
    """Binarize every element; straight through backward where ``|x| ≤ bound``.

    Forward: ``y = +1`` where ``x ≥ 0``, else ``-1``. Declared surrogate: ``h(x) = min(max(x,
    -bound), bound)``, so ``∂L/∂x := ∂L/∂y`` where ``|x| ≤ bound``, else 0.

    At the bounds the gradient passes (``hardtanh`` stops it there, and so does ``torch.clamp`` from
    PyTorch 2.14 on): a weight that was clamped to ``±bound`` must be able to come back.
    Shapes: ``x`` and ``y`` alike, any shape. ``bound`` is a positive Python number and receives no
    gradient. Real floating dtypes; the gradient has the dtype of ``x``. Saves one boolean mask, a
    byte an element. Twice differentiable (the second derivative is 0).
    Source: Hubara et al. 2016, Binarized Neural Networks.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, bound: float = 1.0) -> Tensor:
        """Return the sign of each element, +1 at 0, saving which lie inside the window."""
        ctx.save_for_backward(x.abs() <= bound)
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """Return ``grad_output`` inside the window, 0 outside."""
        (inside,) = ctx.saved_tensors
        return torch.where(inside, grad_output, 0), None
