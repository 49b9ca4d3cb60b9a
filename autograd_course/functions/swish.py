"""Swish (SiLU), and Swish with a learned slope."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.shapes import sum_to_shape


class Swish(torch.autograd.Function):
    """Gate every element by its own sigmoid.

    Forward: ``y = x · σ(x)``. Backward: ``∂L/∂x = (σ(x) + y · (1 - σ(x))) · ∂L/∂y``.

    The output does not determine the input (two ``x`` have the same ``y``), so ``x`` is saved.
    Shapes: ``x`` and ``y`` alike, any shape. Real floating dtypes. Twice differentiable: the
    sigmoid is computed anew in backward. Sources: Elfwing et al. 2017, Ramachandran et al. 2017.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``x · σ(x)``, saving ``x``."""
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return ``σ(x) · (1 + x · (1 - σ(x))) · grad_output``."""
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        gradient: Tensor = s * (1 + x * (1 - s)) * grad_output
        return gradient


class LearnedSwish(torch.autograd.Function):
    """A Swish whose slope is a parameter.

    Forward: ``y = x · σ(βx)``. Backward, with ``s = σ(βx)`` and ``g = ∂L/∂y``:
    ``∂L/∂x = (s + βx · s · (1 - s)) · g`` and ``∂L/∂β = sum_to_shape(x² · s · (1 - s) · g)``: all
    elements share ``β``, which collects from all of them.

    Shapes: ``x`` and ``y`` alike; ``beta`` broadcasts to ``x``: no axes for one slope, ``(C,)`` for
    one a channel. Real floating dtypes, one for both. A gradient is computed only for an input that
    asks for one. Twice differentiable. Source: Ramachandran et al. 2017.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, beta: Tensor) -> Tensor:
        """Return ``x · σ(βx)``, saving both."""
        ctx.save_for_backward(x, beta)
        return x * torch.sigmoid(beta * x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of ``x`` and ``beta``."""
        x, beta = ctx.saved_tensors
        needs_x, needs_beta = ctx.needs_input_grad
        s = torch.sigmoid(beta * x)
        slope = s * (1 - s)
        return (
            (s + beta * x * slope) * grad_output if needs_x else None,
            sum_to_shape(x**2 * slope * grad_output, beta.shape) if needs_beta else None,
        )
