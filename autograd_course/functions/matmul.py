"""The matrix product, with batch dims that broadcast."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.shapes import sum_to_shape


class MatMul(torch.autograd.Function):
    """Multiply the two matrices of each batch entry.

    Forward: ``Y = A B``. Backward, with ``G = ∂L/∂Y``: ``∂L/∂A = G Bᴴ`` and ``∂L/∂B = Aᴴ G``,
    summed over the batch dims that broadcasting has added or expanded. ``ᴴ`` is the conjugate
    transpose of the last two dims. For real matrices, it is the transpose.

    Backward computes gradients only for inputs that require them. Twice differentiable.

    Args:
        a: ``(..., n, k)``, floating-point or complex.
        b: ``(..., k, m)``, with the same dtype as ``a``. The leading dims broadcast.

    Returns:
        ``(..., n, m)``.

    Raises:
        ValueError: An input has fewer than two dims.

    Example:
        >>> import torch
        >>> MatMul.apply(torch.ones(7, 2, 3), torch.ones(3, 4)).shape
        torch.Size([7, 2, 4])
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """Return ``A B`` and save both inputs."""
        if min(a.dim(), b.dim()) < 2:
            raise ValueError(
                f"MatMul needs two matrices or batches of them, "
                f"got shapes {tuple(a.shape)} and {tuple(b.shape)}"
            )
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return the gradients of ``A`` and ``B``."""
        a, b = ctx.saved_tensors
        needs_a, needs_b = ctx.needs_input_grad
        return (
            sum_to_shape(grad_output @ b.mH, a.shape) if needs_a else None,
            sum_to_shape(a.mH @ grad_output, b.shape) if needs_b else None,
        )
