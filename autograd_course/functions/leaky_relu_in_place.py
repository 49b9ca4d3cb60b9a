"""A leaky ReLU that overwrites its input."""

from typing import Any

import torch
from torch import Tensor


class LeakyReLUInPlace(torch.autograd.Function):
    """Scale the negative elements of a tensor, in the tensor itself.

    Forward: ``x ← x`` where ``x > 0``, ``slope·x`` elsewhere; ``x`` is returned. Backward, with the
    output ``y``: ``∂L/∂x = ∂L/∂y`` where ``y > 0``, ``slope·∂L/∂y`` elsewhere. As the slope is
    positive, ``y`` has the sign that ``x`` had, and nothing is kept beside it.

    Shapes: any. ``slope`` is a positive Python number and receives no gradient. Real floating
    dtypes. At 0 the gradient is that of the negative side, as in
    ``torch.nn.functional.leaky_relu``. Twice differentiable. As for any operation in place, ``x``
    must not be a leaf that requires a gradient, and PyTorch raises if it is, or if another node
    still needs what ``x`` held.

    Raises ``ValueError`` if ``slope`` is not positive.
    Source: Rota Bulò, Porzi, Kontschieder, "In-place activated BatchNorm", CVPR 2018.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float = 0.01) -> Tensor:
        """Overwrite ``x`` and return it, saving it as the output that it has become."""
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
        """Return ``grad_output``, times the slope where the output is not positive."""
        (y,) = ctx.saved_tensors
        return torch.where(y > 0, grad_output, ctx.slope * grad_output), None
