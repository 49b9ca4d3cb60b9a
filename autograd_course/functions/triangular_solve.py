"""Triangular linear systems, solved by SciPy; backward is one more such system."""

from typing import Any

import scipy  # type: ignore[import-untyped, unused-ignore]
import torch
from torch import Tensor


class TriangularSolve(torch.autograd.Function):
    """The ``X`` with ``T X = B``, where ``T`` is triangular.

    Forward: forward substitution, or from below where ``lower`` is false. Backward, with
    ``G = ∂L/∂X``: ``Tᵀ U = G``, ``∂L/∂B = U`` and ``∂L/∂T = -U Xᵀ``, of which the half counts that
    is read. ``Tᵀ`` is triangular the other way round, so that backward calls this Function: every
    order is right.

    Shapes: ``T`` is ``(n, n)``, ``B`` and ``X`` are ``(n, k)``, one right-hand side a column. The
    other half of ``T`` is not read, whatever it holds. float32 and float64, one for both; solved on
    the CPU. Saves ``T`` and ``X``. Raises SciPy's ``LinAlgError`` where ``T`` is singular.

    Source: Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
    differentiation" (2008), 2.2.1; ``scipy.linalg.solve_triangular``.
    """

    @staticmethod
    def forward(ctx: Any, T: Tensor, B: Tensor, lower: bool = True) -> Tensor:
        """Return ``T⁻¹ B``, saving it and ``T``."""
        found = scipy.linalg.solve_triangular(T.numpy(force=True), B.numpy(force=True), lower=lower)
        X = torch.as_tensor(found, device=B.device)
        ctx.save_for_backward(T, X)
        ctx.lower = lower
        return X

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor, None]:
        """Solve the transposed system; return the gradients of ``T`` and ``B``."""
        T, X = ctx.saved_tensors
        U = TriangularSolve.apply(T.mT, grad_output, not ctx.lower)  # type: ignore[no-untyped-call]
        half = torch.tril if ctx.lower else torch.triu
        return half(-U @ X.mT) if ctx.needs_input_grad[0] else None, U, None
