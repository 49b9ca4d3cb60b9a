"""Rows of a table by their numbers, as an embedding reads them."""

from typing import Any

import torch
from torch import Tensor


class Lookup(torch.autograd.Function):
    """Read rows of a table.

    Forward: ``y[i] = table[index[i]]``. Backward, with ``g = ∂L/∂y``:
    ``∂L/∂table[r] = Σ_{i: index[i] = r} g[i]``; a row that was read twice collects twice.

    Shapes: ``table`` is ``(R, ...)``, ``index`` any shape of integers from 0 to R - 1, ``y`` is
    ``(*index.shape, ...)``. Floating or complex tables; the gradient has the table's dtype. Saves
    the index only. Twice differentiable. Source: ``torch.nn.functional.embedding`` does the same
    for tables of two axes.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        """Return ``table[index]``, saving ``index``."""
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        return table[index]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """Return a table of zeros into which every read row's gradient was added."""
        (index,) = ctx.saved_tensors
        zeros = grad_output.new_zeros(ctx.shape)  # torch.zeros: float32, and on the CPU
        rows = grad_output.reshape(-1, *ctx.shape[1:])
        return zeros.index_add(0, index.reshape(-1), rows), None
