"""The Function behind the lab: any quantizer forward, any surrogate backward."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.visualize.stelab.quantizers import Quantizer
from autograd_course.visualize.stelab.surrogates import Surrogate


class Quantize(torch.autograd.Function):
    """A straight-through estimator: a staircase forward, a declared surrogate's slope backward.

    Forward: ``y = q(x)``. Backward: ``∂L/∂x := h′(x) · ∂L/∂y`` by design, where the true
    derivative ``q′`` is 0 almost everywhere.

    Shapes: ``x`` and ``y`` alike, any shape. Real floating dtypes; the gradient has the dtype of
    ``x``. Saves the input. Backward is made of differentiable operations, so a second derivative
    is that of the surrogate. Source: Bengio, Léonard and Courville 2013, arXiv:1308.3432.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, quantizer: Quantizer, surrogate: Surrogate) -> Tensor:
        """Return ``q(x)``, saving ``x``."""
        ctx.save_for_backward(x)
        ctx.quantizer, ctx.surrogate = quantizer, surrogate
        return quantizer.quantize(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        """Return ``h′(x) · grad_output``, and ``None`` for what is no tensor."""
        (x,) = ctx.saved_tensors
        return ctx.surrogate.slope(x, ctx.quantizer) * grad_output, None, None
