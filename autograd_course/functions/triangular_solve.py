"""Triangular linear systems, solved by SciPy. Backward solves the transposed system."""

from typing import Any

import scipy  # type: ignore[import-untyped, unused-ignore]
import torch
from torch import Tensor


class TriangularSolve(torch.autograd.Function):
    """Solve ``T X = B`` for ``X``, where ``T`` is triangular.

    Forward: SciPy solves the system. Backward, with ``G = ∂L/∂X``: solve ``Tᵀ U = G``. Then
    ``∂L/∂B = U`` and ``∂L/∂T = -U Xᵀ``, with zeros in the triangle that forward does not read.
    ``Tᵀ`` is also triangular, so backward calls this Function again, and derivatives of every order
    are correct.

    The Function saves ``T`` and ``X``. SciPy runs on the CPU.

    Args:
        T: ``(n, n)``, float32 or float64. Forward reads only one triangle.
        B: ``(n, k)``, with the same dtype as ``T``. Each column is a right-hand side.
        lower: Whether ``T`` is lower triangular.

    Returns:
        ``X``, ``(n, k)``.

    Raises:
        scipy.linalg.LinAlgError: ``T`` is singular.

    Example:
        >>> import torch
        >>> T = torch.tensor([[2.0, 0.0], [1.0, 1.0]])
        >>> TriangularSolve.apply(T, torch.tensor([[4.0], [5.0]]))
        tensor([[2.],
                [3.]])

    Sources: Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
    differentiation", 2008, section 2.2.1; ``scipy.linalg.solve_triangular``.
    """

    @staticmethod
    def forward(ctx: Any, T: Tensor, B: Tensor, lower: bool = True) -> Tensor:
        """Return ``T⁻¹ B`` and save it with ``T``."""
        found = scipy.linalg.solve_triangular(T.numpy(force=True), B.numpy(force=True), lower=lower)
        X = torch.as_tensor(found, device=B.device)
        ctx.save_for_backward(T, X)
        ctx.lower = lower
        return X

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor, None]:
        """Solve the transposed system, and return the gradients of ``T`` and ``B``."""
        T, X = ctx.saved_tensors
        U = TriangularSolve.apply(T.mT, grad_output, not ctx.lower)  # type: ignore[no-untyped-call]
        half = torch.tril if ctx.lower else torch.triu
        return half(-U @ X.mT) if ctx.needs_input_grad[0] else None, U, None
