"""Swish (SiLU), and Swish with a learned slope."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.shapes import sum_to_shape


class Swish(torch.autograd.Function):
    """Multiply each element by its own sigmoid.

    Forward: ``y = x · σ(x)``. Backward: ``∂L/∂x = (σ(x) + y · (1 - σ(x))) · ∂L/∂y``.

    The output does not determine the input, because two values of ``x`` can have the same ``y``.
    Therefore, the Function saves ``x``. Twice differentiable, because backward recomputes the
    sigmoid.

    Args:
        x: Any shape, real floating-point dtype.

    Returns:
        The activation, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> Swish.apply(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.2689,  0.0000,  0.7311])

    Sources: Elfwing, Uchibe and Doya 2017; Ramachandran, Zoph and Le 2017.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``x · σ(x)`` and save ``x``."""
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
    """Compute a Swish whose slope is a parameter.

    Forward: ``y = x · σ(βx)``. Backward, with ``s = σ(βx)`` and ``g = ∂L/∂y``:
    ``∂L/∂x = (s + βx · s · (1 - s)) · g`` and ``∂L/∂β = sum_to_shape(x² · s · (1 - s) · g)``. All
    elements that share a ``β`` contribute to its gradient.

    Backward computes gradients only for inputs that require them. Twice differentiable.

    Args:
        x: Any shape, real floating-point dtype.
        beta: The slope, with the same dtype as ``x`` and a shape that broadcasts to ``x``: a 0-dim
            tensor for one slope, or ``(C,)`` for one slope per channel (the last dim).

    Returns:
        The activation, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> LearnedSwish.apply(torch.tensor([1.0]), torch.tensor(2.0))
        tensor([0.8808])

    Source: Ramachandran, Zoph and Le, "Searching for activation functions", 2017.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, beta: Tensor) -> Tensor:
        """Return ``x · σ(βx)`` and save both inputs."""
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
