"""The matrix product, with batches that broadcast."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.shapes import sum_to_shape


class MatMul(torch.autograd.Function):
    """Multiply matrices, batch by batch.

    Forward: ``Y = A B``. Backward, with ``G = ∂L/∂Y``: ``∂L/∂A = G Bᴴ`` and ``∂L/∂B = Aᴴ G``,
    summed over the batch axes that broadcasting has added or stretched. (``ᴴ`` transposes the last
    two axes and conjugates; for real matrices it is the transpose.)

    Shapes: ``A`` is ``(..., n, k)``, ``B`` is ``(..., k, m)``, ``Y`` is ``(..., n, m)``; the
    leading axes broadcast. Floating or complex dtypes, one for both. A gradient is computed only
    for an input that asks for one. Twice differentiable.

    Raises ``ValueError`` for a tensor of fewer than two axes.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        """Return ``A B``, saving both."""
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
