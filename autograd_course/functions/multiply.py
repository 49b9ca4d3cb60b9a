"""The product of two tensors that broadcast."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.shapes import sum_to_shape


class Multiply(torch.autograd.Function):
    """Multiply two tensors whose shapes broadcast.

    Forward: ``y = a·b``. Backward, with ``g = ∂L/∂y``: ``∂L/∂a = sum_to_shape(g·b̄)`` and
    ``∂L/∂b = sum_to_shape(g·ā)``, where the bar is the complex conjugate.

    Broadcasting uses an element several times, so the element's gradient is the sum over all uses.
    Backward computes gradients only for inputs that require them. Twice differentiable.

    Args:
        a: A tensor, floating-point or complex.
        b: A tensor of the same dtype, whose shape broadcasts with the shape of ``a``.

    Returns:
        The product, in the common shape.

    Example:
        >>> import torch
        >>> Multiply.apply(torch.ones(2, 3), torch.tensor([1.0, 2.0, 3.0])).shape
        torch.Size([2, 3])
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """Return ``a·b`` and save both inputs."""
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of ``a`` and ``b``, each with the shape of its input."""
        a, b = ctx.saved_tensors
        needs_a, needs_b = ctx.needs_input_grad
        return (
            sum_to_shape(grad_output * b.conj(), a.shape) if needs_a else None,
            sum_to_shape(grad_output * a.conj(), b.shape) if needs_b else None,
        )
