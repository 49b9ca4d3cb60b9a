"""The sign function, with a straight-through gradient."""

from typing import Any

import torch
from torch import Tensor


class SignSTE(torch.autograd.Function):
    """Replace each element by its sign, with a straight-through gradient.

    Forward: ``y = +1`` where ``x ≥ 0``, and ``-1`` elsewhere. Declared surrogate: ``h(x) = x``, so
    ``∂L/∂x := ∂L/∂y`` by design. The true derivative is 0 wherever it exists.

    At 0, the output is +1, so the output has only two values. (``torch.sign`` returns 0 there.) The
    Function saves nothing. Twice differentiable: the second derivative of the surrogate is 0.

    Args:
        x: Any shape, real floating-point dtype.

    Returns:
        The signs, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> SignSTE.apply(torch.tensor([-0.3, 0.0, 2.0]))
        tensor([-1.,  1.,  1.])

    Sources: Hinton's 2012 lectures; Bengio, Léonard and Courville, arXiv:1308.3432, 2013.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return the sign of each element. The sign of 0 is +1."""
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return ``grad_output``."""
        return grad_output.clone()  # a copy, so that changing it does not change another gradient
