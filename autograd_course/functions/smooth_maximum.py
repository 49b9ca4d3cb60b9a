"""A smooth maximum with a temperature. It supports the transforms of torch.func."""

from typing import Any

import torch
from torch import Tensor


class SmoothMaximum(torch.autograd.Function):
    """Compute a maximum over the last dim, smoothed by a temperature.

    Forward: ``y = t · log Σ exp(x / t)``, which tends to ``max x`` as ``t → 0``. Backward, with
    ``p = softmax(x / t)`` and ``g = ∂L/∂y``: ``∂L/∂x = p · g`` and
    ``∂L/∂t = Σ g · (y - Σ p x) / t``. Forward mode: ``ẏ = Σ p ẋ + ṫ · (y - Σ p x) / t``.

    To support the transforms of ``torch.func``, this class has separate methods ``forward`` and
    ``setup_context``, a generated vmap rule, and a ``jvp``. Because of the ``jvp``,
    ``torch.compile`` breaks the graph at this Function. Backward computes gradients only for inputs
    that require them. Twice differentiable, including in forward-over-reverse mode.

    Args:
        x: At least one dim, real floating-point dtype.
        temperature: ``t``, a positive 0-dim tensor with the same dtype as ``x``.

    Returns:
        The smooth maximum, without the last dim.

    Example:
        >>> import torch
        >>> SmoothMaximum.apply(torch.tensor([1.0, 3.0]), torch.tensor(0.1))
        tensor(3.)
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, temperature: Tensor) -> Tensor:
        """Return ``t · log Σ exp(x / t)``."""
        return temperature * torch.logsumexp(x / temperature, -1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Save the inputs and the output, for backward and for forward mode."""
        ctx.save_for_backward(*inputs, output)
        ctx.save_for_forward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return ``p · g``, and the gradient of the temperature, summed over all rows."""
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
