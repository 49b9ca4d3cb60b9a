"""The affine map of a linear layer, with an optional bias."""

from typing import Any

import torch
from torch import Tensor


class Linear(torch.autograd.Function):
    """Apply an affine map to the last dim.

    Forward: ``y = x Wᵀ + b``. Backward, with ``g = ∂L/∂y`` and the leading dims flattened to rows:
    ``∂L/∂x = g W``, ``∂L/∂W = gᵀ x``, ``∂L/∂b = Σ_rows g``.

    Backward computes gradients only for inputs that require them. Twice differentiable.

    Args:
        x: ``(..., in)``, real floating-point dtype.
        weight: ``(out, in)``, with the same dtype as ``x``.
        bias: ``(out,)``, with the same dtype as ``x``, or None.

    Returns:
        ``(..., out)``.

    Example:
        >>> import torch
        >>> Linear.apply(torch.ones(5, 3), torch.ones(2, 3), torch.zeros(2)).shape
        torch.Size([5, 2])
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return ``x Wᵀ + b`` and save ``x`` and ``W``. Backward does not need the bias."""
        ctx.save_for_backward(x, weight)
        y = x @ weight.t()
        return y if bias is None else y + bias

    @staticmethod
    def backward(
        ctx: Any, grad_output: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return the gradients of ``x``, ``weight`` and ``bias``."""
        x, weight = ctx.saved_tensors
        # There is one flag for each argument of the call, so there are two if the bias was omitted.
        needs_x, needs_weight, *needs_bias = ctx.needs_input_grad
        rows = grad_output.reshape(-1, weight.shape[0])
        return (
            grad_output @ weight if needs_x else None,
            rows.t() @ x.reshape(-1, weight.shape[1]) if needs_weight else None,
            rows.sum(0) if any(needs_bias) else None,
        )
