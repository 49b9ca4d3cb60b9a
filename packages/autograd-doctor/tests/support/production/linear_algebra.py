"""Matrices: solving with a Cholesky factor, inverse, determinant and exponential."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from production.operation import Mutant, Operation, changed, normal

Grads = tuple[Tensor | None, ...]


class CholeskySolve(Function):
    """``A⁻¹ b`` for a symmetric positive definite A. Both passes use the same factor."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        factor = torch.linalg.cholesky(a)
        x = torch.cholesky_solve(b, factor)
        ctx.save_for_backward(a, x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        a, x = ctx.saved_tensors
        grad_b = torch.cholesky_solve(g, torch.linalg.cholesky(a))
        if not ctx.needs_input_grad[0]:
            return None, grad_b
        grad_a = -grad_b @ x.mT
        return (grad_a + grad_a.mT) / 2, grad_b


def solve_gram(m: Tensor, b: Tensor, function: type[Function] = CholeskySolve) -> Tensor:
    """Solve with ``m mᵀ + I``, which stays symmetric for every m."""
    eye = torch.eye(len(m), dtype=m.dtype, device=m.device)
    return function.apply(m @ m.mT + eye, b)


def without_the_minus(m: Tensor, b: Tensor) -> Tensor:
    def backward(ctx: Any, g: Tensor) -> Grads:
        grad_a, grad_b = CholeskySolve.backward(ctx, g)
        return -grad_a, grad_b

    return solve_gram(m, b, changed(CholeskySolve, backward=backward))


def without_the_second_solve(m: Tensor, b: Tensor) -> Tensor:
    def backward(ctx: Any, g: Tensor) -> Grads:
        _, x = ctx.saved_tensors
        return -g @ x.mT, CholeskySolve.backward(ctx, g)[1]

    return solve_gram(m, b, changed(CholeskySolve, backward=backward))


class Inverse(Function):
    """The inverse Y, which is the only saved tensor. The gradient is ``-Yᵀ g Yᵀ``."""

    @staticmethod
    def forward(a: Tensor) -> Tensor:
        return torch.linalg.inv(a)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return -y.mT @ g @ y.mT


def inverse_not_transposed(ctx: Any, g: Tensor) -> Tensor:
    (y,) = ctx.saved_tensors
    return -y @ g @ y


class LogAbsDet(Function):
    """The logarithm of the determinant's absolute value, for a batch of matrices."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        ctx.save_for_backward(a)
        return torch.linalg.slogdet(a).logabsdet

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (a,) = ctx.saved_tensors
        return g[..., None, None] * torch.linalg.inv(a).mT


def determinant_not_transposed(ctx: Any, g: Tensor) -> Tensor:
    (a,) = ctx.saved_tensors
    return g[..., None, None] * torch.linalg.inv(a)


def series(a: Tensor) -> Tensor:
    """The exponential series, with enough terms for matrices of norm 3."""
    term = total = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    for k in range(1, 30):
        term = term @ a / k
        total = total + term
    return total


class MatrixExponential(Function):
    """exp(A). The derivative is a block of the exponential of a matrix that is twice as large."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        ctx.save_for_backward(a)
        return series(a)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (a,) = ctx.saved_tensors
        return upper_block(a.mT, g)


def upper_block(a: Tensor, g: Tensor) -> Tensor:
    n = len(a)
    return series(torch.cat([torch.cat([a, g], 1), torch.cat([torch.zeros_like(a), a], 1)]))[:n, n:]


def block_not_transposed(ctx: Any, g: Tensor) -> Tensor:
    return upper_block(ctx.saved_tensors[0], g)


def as_if_it_commuted(ctx: Any, g: Tensor) -> Tensor:
    return g @ series(ctx.saved_tensors[0].mT)


_SQUARE = normal(3, 3)


OPERATIONS = (
    Operation(
        "solving with a Cholesky factor",
        solve_gram,
        (_SQUARE, normal(3, 2, seed=1)),
        lambda m, b: torch.linalg.solve(m @ m.mT + torch.eye(3, dtype=m.dtype), b),
        (
            Mutant("flipped-sign", fn=without_the_minus),
            Mutant("gradient-mismatch", fn=without_the_second_solve),
        ),
    ),
    Operation(
        "matrix inverse",
        Inverse,
        (_SQUARE,),
        torch.inverse,
        (Mutant("transposed-gradient", inverse_not_transposed),),
    ),
    Operation(
        "logarithm of a determinant",
        LogAbsDet,
        (normal(2, 3, 3),),
        lambda a: torch.linalg.slogdet(a).logabsdet,
        (Mutant("transposed-gradient", determinant_not_transposed),),
    ),
    Operation(
        "matrix exponential",
        MatrixExponential,
        (0.5 * _SQUARE,),
        torch.linalg.matrix_exp,
        (
            Mutant("transposed-gradient", block_not_transposed),
            Mutant("gradient-mismatch", as_if_it_commuted),
        ),
    ),
)
