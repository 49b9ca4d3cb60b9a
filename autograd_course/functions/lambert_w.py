"""The inverse of w·exp(w), computed by SciPy. Backward uses only the output, to any order."""

from typing import Any

import numpy
import scipy  # type: ignore[import-untyped, unused-ignore]
import torch
from torch import Tensor


class LambertW(torch.autograd.Function):
    """Compute Lambert's W function, the solution ``w`` of ``w·exp(w) = x``, for each element.

    Forward: SciPy computes ``w = W(x)``, the principal branch. Backward: differentiating the
    equation gives ``(1 + w)·exp(w) dw = dx``, so ``∂L/∂x = exp(-w)/(1 + w) · ∂L/∂w``. (Many tables
    give the formula ``w/(x·(1 + w))``, which is 0/0 at ``x = 0``.)

    Backward uses PyTorch operations on the saved output, which has a graph, so derivatives of every
    order are correct. SciPy runs on the CPU.

    Args:
        x: Any shape, float32 or float64. ``W`` is nan below ``-1/e``, and its slope is infinite
            there.

    Returns:
        ``w``, with the same shape, dtype and device as ``x``.

    Example:
        >>> import torch
        >>> LambertW.apply(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.5671])

    Sources: Corless et al., "On the Lambert W function", 1996; ``scipy.special.lambertw``.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``W(x)`` and save it."""
        found = scipy.special.lambertw(x.numpy(force=True))  # complex, because x may be below -1/e
        real = numpy.where(found.imag == 0, found.real, numpy.nan)
        w = torch.as_tensor(real, dtype=x.dtype, device=x.device)
        ctx.save_for_backward(w)
        return w

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return ``exp(-w)/(1 + w) · grad_output``."""
        (w,) = ctx.saved_tensors
        grad_x: Tensor = grad_output * torch.exp(-w) / (1 + w)
        return grad_x
