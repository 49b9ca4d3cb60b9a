"""Average pooling, max pooling and pixel shuffle."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from production.operation import Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


class AveragePool(Function):
    """The mean of each ``size × size`` block."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, size: int) -> Tensor:
        ctx.size = size
        return blocks(x, size).mean((-3, -1))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        spread = g.repeat_interleave(ctx.size, -1).repeat_interleave(ctx.size, -2)
        return spread / ctx.size**2, None


def blocks(x: Tensor, size: int) -> Tensor:
    *lead, height, width = x.shape
    return x.reshape(*lead, height // size, size, width // size, size)


class InputSavedForItsShape(AveragePool):
    @staticmethod
    def forward(ctx: Any, x: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(x)
        return blocks(x, size).mean((-3, -1))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        (x,) = ctx.saved_tensors
        size = x.shape[-1] // g.shape[-1]
        return g.repeat_interleave(size, -1).repeat_interleave(size, -2) / size**2, None


def spread_by_view(ctx: Any, g: Tensor) -> Grads:
    columns = g.view(-1, 1).expand(-1, ctx.size).reshape(*g.shape[:-1], -1)
    return columns.repeat_interleave(ctx.size, -2) / ctx.size**2, None


def divided_by_the_side(ctx: Any, g: Tensor) -> Grads:
    grad, _ = AveragePool.backward(ctx, g)
    return grad * ctx.size, None


class MaxPool(Function):
    """The maximum of overlapping windows, and the indices of the maxima."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, size: int, stride: int) -> tuple[Tensor, Tensor]:
        y, winners = F.max_pool2d(x, size, stride, return_indices=True)
        ctx.mark_non_differentiable(winners)
        ctx.save_for_backward(winners)
        ctx.shape = x.shape
        return y, winners

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Tensor) -> Grads:
        (winners,) = ctx.saved_tensors
        grad = g.new_zeros(ctx.shape).flatten(-2)
        return (
            grad.scatter_add(-1, winners.flatten(-2), g.flatten(-2)).reshape(ctx.shape),
            None,
            None,
        )


class WinnersKeptOnTheClass(MaxPool):
    winners: Tensor

    @staticmethod
    def forward(ctx: Any, x: Tensor, size: int, stride: int) -> tuple[Tensor, Tensor]:
        y, winners = MaxPool.forward(ctx, x, size, stride)
        WinnersKeptOnTheClass.winners = winners
        return y, winners

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Tensor) -> Grads:
        grad, winners = g.new_zeros(ctx.shape).flatten(-2), WinnersKeptOnTheClass.winners
        grad = grad.scatter_add(-1, winners.flatten(-2), g.flatten(-2))
        return grad.reshape(ctx.shape), None, None


def winners_assigned(ctx: Any, g: Tensor, _: Tensor) -> Grads:
    (winners,) = ctx.saved_tensors
    grad = g.new_zeros(ctx.shape).flatten(-2)
    return grad.scatter(-1, winners.flatten(-2), g.flatten(-2)).reshape(ctx.shape), None, None


class PixelShuffle(Function):
    """Channels become pixels. Backward does the opposite, even for an empty batch."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: int) -> Tensor:
        ctx.factor = factor
        return F.pixel_shuffle(x, factor)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        return gathered(g, ctx.factor, (0, 1, 3, 5, 2, 4)), None


def gathered(g: Tensor, r: int, order: tuple[int, ...]) -> Tensor:
    n, c, height, width = g.shape
    split = g.reshape(n, c, height // r, r, width // r, r)
    return split.permute(order).reshape(n, c * r * r, height // r, width // r)


def unshuffled_by_torch(ctx: Any, g: Tensor) -> Grads:
    return F.pixel_unshuffle(g, ctx.factor), None  # has a different shape if the batch is empty


def channels_in_another_order(ctx: Any, g: Tensor) -> Grads:
    return gathered(g, ctx.factor, (0, 1, 5, 3, 2, 4)), None


OPERATIONS = (
    Operation(
        "average pooling",
        AveragePool,
        (normal(2, 4, 4), 2),
        lambda x, size: F.avg_pool2d(x, size),
        (
            Mutant("constant-factor", divided_by_the_side),
            Mutant("grad-output-layout", spread_by_view),
            Mutant("oversaved", fn=InputSavedForItsShape),
        ),
    ),
    Operation(
        "max pooling with indices",
        MaxPool,
        (normal(1, 2, 5, 5, seed=1), 3, 2),
        lambda x, size, stride: F.max_pool2d(x, size, stride, return_indices=True),
        (
            Mutant("duplicate-index", winners_assigned),
            Mutant("shared-state", fn=WinnersKeptOnTheClass),
        ),
    ),
    Operation(
        "pixel shuffle",
        PixelShuffle,
        (normal(1, 4, 2, 3), 2),
        F.pixel_shuffle,
        (
            Mutant("permuted-gradient", channels_in_another_order),
            Mutant("zero-size", unshuffled_by_torch),
        ),
    ),
)
