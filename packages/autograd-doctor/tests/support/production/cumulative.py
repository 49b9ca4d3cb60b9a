"""Running sums and products, and a product computed by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from production.operation import ONCE, Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


def from_the_end(x: Tensor, dim: int = -1) -> Tensor:
    """Return the running sum from the last element to the first."""
    return x.flip(dim).cumsum(dim).flip(dim)


class CumulativeSum(Function):
    """The running sum. Backward sums from the other end."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int = -1) -> Tensor:
        ctx.dim = dim
        return x.cumsum(dim)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        return from_the_end(g, ctx.dim), None


def summed_from_the_start(ctx: Any, g: Tensor) -> Grads:
    return g.cumsum(ctx.dim), None


def own_term_left_out(ctx: Any, g: Tensor) -> Grads:
    return from_the_end(g, ctx.dim) - g, None


class LogCumulativeSumExp(Function):
    """The running log-sum-exp.

    Backward uses logarithms, separately for each sign of grad_output.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.logcumsumexp(-1)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x, y = ctx.saved_tensors

        def positive(part: Tensor) -> Tensor:
            logarithms = (part.clamp(min=0).log() - y).flip(-1)
            return (logarithms.logcumsumexp(-1).flip(-1) + x).exp()

        return positive(g) - positive(-g)


def logarithms_left(ctx: Any, g: Tensor) -> Tensor:
    x, y = ctx.saved_tensors
    return x.exp() * from_the_end(g * (-y).exp())


def later_outputs_forgotten(ctx: Any, g: Tensor) -> Tensor:
    x, y = ctx.saved_tensors
    return g * (x - y).exp()


class PrefixProduct(Function):
    """The running product of nonzero numbers."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.cumprod(-1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        x, y = ctx.saved_tensors
        return from_the_end(g * y) / x


def divided_by_the_product(ctx: Any, g: Tensor) -> Tensor:
    _, y = ctx.saved_tensors
    return from_the_end(g * y) / y


class NumpyProduct(Function):
    """The product of each row, with forward and backward in NumPy.

    A row may contain several zeros.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return like(x, np.prod(x.detach().cpu().numpy(), -1))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        values = x.detach().cpu().numpy()
        others = [np.prod(np.delete(values, i, -1), -1) for i in range(values.shape[-1])]
        return g[..., None] * like(x, np.stack(others, -1))


def like(x: Tensor, array: np.ndarray[Any, Any]) -> Tensor:
    return torch.as_tensor(array, dtype=x.dtype, device=x.device)


def not_declared_once_differentiable(ctx: Any, g: Tensor) -> Tensor:
    undeclared: Any = NumpyProduct.backward.__wrapped__
    return undeclared(ctx, g)


def divided_by_itself(ctx: Any, g: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    return g[..., None] * x.prod(-1, keepdim=True) / x


_ROWS = normal(3, 5)


_WITH_A_ZERO = torch.tensor([[1.5, -2.0, 0.5], [3.0, 0.0, -1.0], [0.7, 1.1, 2.0]])


OPERATIONS = (
    Operation(
        "running sum",
        CumulativeSum,
        (_ROWS, 0),
        torch.cumsum,
        (
            Mutant("transposed-gradient", summed_from_the_start),
            Mutant("missing-dependency", own_term_left_out),
        ),
    ),
    Operation("running sum of the last axis", CumulativeSum, (_ROWS,), lambda x: x.cumsum(-1), ()),
    Operation(
        "running log-sum-exp",
        LogCumulativeSumExp,
        (_ROWS,),
        lambda x: x.logcumsumexp(-1),
        (
            Mutant("missing-cross-terms", later_outputs_forgotten),
            Mutant("overflow", logarithms_left),
        ),
    ),
    Operation(
        "running product",
        PrefixProduct,
        (_ROWS.abs() + 0.5,),
        lambda x: x.cumprod(-1),
        (Mutant("gradient-mismatch", divided_by_the_product),),
    ),
    Operation(
        "product by NumPy",
        NumpyProduct,
        (_WITH_A_ZERO,),
        lambda x: x.prod(-1),
        (
            Mutant("non-finite", divided_by_itself),
            Mutant("silent-double-backward", not_declared_once_differentiable),
        ),
        allowed=ONCE,
    ),
)
