"""A maximum with a temperature, in the form that every transform takes."""

from typing import Any

import torch
from torch import Tensor


class SmoothMaximum(torch.autograd.Function):
    """The maximum over the last axis, made smooth by a temperature.

    Forward: ``y = t · log Σ exp(x / t)``, which tends to ``max x`` as ``t → 0``. With
    ``p = softmax(x / t)``, backward is ``∂L/∂x = p · g`` and ``∂L/∂t = Σ g · (y - Σ p x) / t``, and
    forward mode ``ẏ = Σ p ẋ + ṫ · (y - Σ p x) / t``.

    ``forward`` and ``setup_context`` are separate, the vmap rule is generated, and there is a
    ``jvp``, for the transforms of ``torch.func``. ``torch.compile`` breaks the graph here because
    of the ``jvp``. Shapes: ``x``
    any but 0-dim, ``y`` without its last axis, ``temperature`` a positive 0-dim tensor. Real
    floating dtypes, one for both. A gradient is computed only for an input that asks for one. Twice
    differentiable, forward over reverse too.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, temperature: Tensor) -> Tensor:
        """Return ``t · log Σ exp(x / t)``."""
        return temperature * torch.logsumexp(x / temperature, -1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Save inputs and output, for backward and for forward mode."""
        ctx.save_for_backward(*inputs, output)
        ctx.save_for_forward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return ``p · g``, and the temperature's share summed over all rows."""
        x, t, y = ctx.saved_tensors
        needs_x, needs_t = ctx.needs_input_grad
        p = torch.softmax(x / t, -1)
        return (
            p * grad_output[..., None] if needs_x else None,
            (grad_output * (y - (p * x).sum(-1)) / t).sum() if needs_t else None,
        )

    @staticmethod
    def jvp(ctx: Any, x_tangent: Tensor, t_tangent: Tensor) -> Tensor:
        """Return the tangent of the output."""
        x, t, y = ctx.saved_tensors
        p = torch.softmax(x / t, -1)
        tangent: Tensor = (p * x_tangent).sum(-1) + t_tangent * (y - (p * x).sum(-1)) / t
        return tangent
