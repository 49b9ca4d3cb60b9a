"""Rows of a table, looked up by index as in an embedding."""

from typing import Any

import torch
from torch import Tensor


class Lookup(torch.autograd.Function):
    """Read rows of a table.

    Forward: ``y[i] = table[index[i]]``. Backward, with ``g = ∂L/∂y``:
    ``∂L/∂table[r] = Σ_{i: index[i] = r} g[i]``. If a row is read several times, its gradients add
    up.

    The Function saves only the index. Twice differentiable. ``torch.nn.functional.embedding``
    computes the same result for two-dimensional tables.

    Args:
        table: ``(R, ...)``, floating-point or complex.
        index: Integers from 0 to ``R - 1``, any shape.

    Returns:
        ``(*index.shape, ...)``.

    Example:
        >>> import torch
        >>> Lookup.apply(torch.tensor([10.0, 20.0, 30.0]), torch.tensor([2, 0, 2]))
        tensor([30., 10., 30.])
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        """Return ``table[index]`` and save ``index``."""
        ctx.save_for_backward(index)
        ctx.shape = table.shape
        return table[index]

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """Start from a table of zeros, and add each ``g[i]`` to the row ``index[i]``."""
        (index,) = ctx.saved_tensors
        zeros = grad_output.new_zeros(ctx.shape)  # torch.zeros would use float32 and the CPU
        rows = grad_output.reshape(-1, *ctx.shape[1:])
        return zeros.index_add(0, index.reshape(-1), rows), None
