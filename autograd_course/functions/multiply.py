"""The product of two tensors that broadcast."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.shapes import sum_to_shape


class Multiply(torch.autograd.Function):
    """Multiply two tensors of broadcastable shapes.

    Forward: ``y = a · b``. Backward, with ``g = ∂L/∂y``: ``∂L/∂a = sum_to_shape(g · b̄)`` and
    ``∂L/∂b = sum_to_shape(g · ā)``, where the bar conjugates. An element that broadcasting repeats
    is used many times, and collects from all its uses.

    Shapes: ``a`` and ``b`` broadcast, ``y`` has the common shape. Floating or complex dtypes, one
    for both. A gradient is computed only for an input that asks for one. Twice differentiable.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """Return ``a · b``, saving both."""
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of ``a`` and ``b``, each of its input's own shape."""
        a, b = ctx.saved_tensors
        needs_a, needs_b = ctx.needs_input_grad
        return (
            sum_to_shape(grad_output * b.conj(), a.shape) if needs_a else None,
            sum_to_shape(grad_output * a.conj(), b.shape) if needs_b else None,
        )
