"""A leaky ReLU that overwrites its input."""

from typing import Any

import torch
from torch import Tensor


class LeakyReLUInPlace(torch.autograd.Function):
    """Scale the negative elements of a tensor in place.

    Forward: ``x ← x`` where ``x > 0``, and ``slope·x`` elsewhere. The Function returns ``x``.
    Backward, with the output ``y``: ``∂L/∂x = ∂L/∂y`` where ``y > 0``, and ``slope·∂L/∂y``
    elsewhere.

    The slope is positive, so ``y`` has the sign of the original ``x``, and the Function saves only
    the output. At 0, it uses the gradient of the negative side, as in
    ``torch.nn.functional.leaky_relu``. Twice differentiable.

    As with every in-place operation, PyTorch raises an error if ``x`` is a leaf that requires a
    gradient, or if another node still needs the old values of ``x``.

    Args:
        x: Any shape, real floating-point dtype.
        slope: A positive Python number. It has no gradient.

    Returns:
        ``x`` itself.

    Raises:
        ValueError: ``slope`` is not positive.

    Example:
        >>> import torch
        >>> LeakyReLUInPlace.apply(torch.tensor([-2.0, 3.0]), 0.5)
        tensor([-1.,  3.])

    Source: Rota Bulò, Porzi and Kontschieder, "In-place activated BatchNorm", 2018.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float = 0.01) -> Tensor:
        """Overwrite ``x``, save it and return it."""
        if not slope > 0:
            raise ValueError(
                f"LeakyReLUInPlace needs a positive slope, or the output does not tell the "
                f"input's sign; got {slope}"
            )
        torch.nn.functional.leaky_relu_(x, slope)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """Return ``grad_output``, multiplied by ``slope`` where the output is not positive."""
        (y,) = ctx.saved_tensors
        return torch.where(y > 0, grad_output, ctx.slope * grad_output), None
