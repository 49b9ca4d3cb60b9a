"""A smooth ReLU. Backward uses only the output and is differentiable to any order."""

from typing import Any

import torch
from torch import Tensor


class Softplus(torch.autograd.Function):
    """Compute a smooth ``max(x, 0)`` and save only the output.

    Forward: ``y = log(1 + exp(x))``. Backward: ``∂L/∂x = σ(x) · ∂L/∂y``, where
    ``σ(x) = 1 - exp(-y)``.

    If ``forward`` saved ``σ(x)``, the saved tensor would be a constant for backward, and the second
    derivative would be incomplete. The output has a graph, so derivatives of every order are
    correct: differentiating ``backward`` calls the ``backward`` of this Function again.

    Args:
        x: Any shape, real floating-point dtype.

    Returns:
        The activation, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> Softplus.apply(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([0.3133, 0.6931, 1.3133])

    Source: Dugas et al., "Incorporating second-order functional knowledge for better option
    pricing", 2001.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``log(1 + exp(x))`` and save it."""
        y = torch.nn.functional.softplus(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return ``(1 - exp(-y)) · grad_output``."""
        (y,) = ctx.saved_tensors
        return -torch.expm1(-y) * grad_output  # expm1, because 1 - exp(-y) loses digits at small y
