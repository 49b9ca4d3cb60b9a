"""The inverse of w·exp(w), computed by SciPy and differentiable to any order from its output."""

from typing import Any

import numpy
import scipy  # type: ignore[import-untyped, unused-ignore]
import torch
from torch import Tensor


class LambertW(torch.autograd.Function):
    """Lambert's W, element by element: the ``w`` with ``w·exp(w) = x``.

    Forward: ``w = W(x)``, the principal branch, by SciPy. Backward: differentiating the equation,
    ``(1 + w)·exp(w) dw = dx``, so ``∂L/∂x = exp(-w)/(1 + w) · ∂L/∂w``. (``w/(x·(1 + w))``, which
    the tables give, is 0/0 at ``x = 0``.)

    Backward is made of PyTorch operations on the output, which has a graph: every order is right.
    Shapes: ``x`` and ``w`` alike, any shape. ``x ≥ -1/e``, where the slope is infinite; below it
    ``w`` is nan. float32 and float64; ``w`` has the dtype and device of ``x``, and is computed on
    the CPU. Saves the output.

    Source: Corless et al., "On the Lambert W function" (1996); ``scipy.special.lambertw``.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``W(x)``, saving it."""
        found = scipy.special.lambertw(x.numpy(force=True))  # complex: below -1/e it has to be
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
