"""Several outputs: a Givens rotation, the minimum and maximum, and a coupling block."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from production.operation import CHEAP, Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


class Givens(Function):
    """The rotation of ``(a, b)`` onto the first axis.

    The outputs are the length, cosine and sine.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r = torch.hypot(a, b)
        c, s = a / r, b / r
        ctx.save_for_backward(r, c, s)
        ctx.set_materialize_grads(False)
        return r, c, s

    @staticmethod
    def backward(ctx: Any, *gs: Tensor | None) -> Grads:
        r, c, s = ctx.saved_tensors
        gr, gc, gs_ = (torch.zeros_like(r) if g is None else g for g in gs)
        across = (s * gc - c * gs_) / r
        return c * gr + s * across, s * gr - c * across


def copies_of_the_outputs_saved(ctx: Any, a: Tensor, b: Tensor) -> Grads:
    r = torch.hypot(a, b)
    ctx.save_for_backward(r, a / r, b / r)
    ctx.set_materialize_grads(False)
    return r, a / r, b / r


def length_alone(ctx: Any, *gs: Tensor | None) -> Grads:
    r, c, s = ctx.saved_tensors
    gr = torch.zeros_like(r) if gs[0] is None else gs[0]
    return c * gr, s * gr


def none_not_expected(ctx: Any, gr: Tensor, gc: Tensor, gs: Tensor) -> Grads:
    r, c, s = ctx.saved_tensors
    across = (s * gc - c * gs) / r
    return c * gr + s * across, s * gr - c * across


class MinMax(Function):
    """The minimum and maximum of each row. Equal elements share the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        low, high = x.aminmax(dim=-1, keepdim=True)
        ctx.save_for_backward(x, low, high)
        return low, high

    @staticmethod
    def backward(ctx: Any, g_low: Tensor, g_high: Tensor) -> Tensor:
        x, low, high = ctx.saved_tensors
        return shared(g_low, x == low) + shared(g_high, x == high)


def shared(g: Tensor, winners: Tensor) -> Tensor:
    return g * winners / winners.sum(-1, keepdim=True)


def shared_in_float32(ctx: Any, g_low: Tensor, g_high: Tensor) -> Tensor:
    x, low, high = ctx.saved_tensors
    at_low, at_high = ((x == end) / (x == end).sum(-1, keepdim=True) for end in (low, high))
    return g_low * at_low + g_high * at_high


def least_and_largest_exchanged(ctx: Any, g_low: Tensor, g_high: Tensor) -> Tensor:
    return MinMax.backward(ctx, g_high, g_low)


class Coupling(Function):
    """An invertible residual block. Backward computes the inputs from the outputs."""

    @staticmethod
    def forward(ctx: Any, x1: Tensor, x2: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        y1 = x1 + torch.tanh(x2 @ a)
        y2 = x2 + torch.tanh(y1 @ b)
        ctx.save_for_backward(y1, y2, a, b)
        return y1, y2

    @staticmethod
    def backward(ctx: Any, g1: Tensor, g2: Tensor) -> Grads:
        y1, y2, a, b = ctx.saved_tensors
        second = torch.tanh(y1 @ b)
        x2 = y2 - second
        inner2 = g2 * (1 - second**2)
        g1 = g1 + inner2 @ b.mT
        inner1 = g1 * (1 - torch.tanh(x2 @ a) ** 2)
        return g1, g2 + inner1 @ a.mT, x2.mT @ inner1, y1.mT @ inner2


def outputs_taken_for_inputs(ctx: Any, g1: Tensor, g2: Tensor) -> Grads:
    y1, y2, a, b = ctx.saved_tensors
    inner2 = g2 * (1 - torch.tanh(y1 @ b) ** 2)
    g1 = g1 + inner2 @ b.mT
    inner1 = g1 * (1 - torch.tanh(y2 @ a) ** 2)
    return g1, g2 + inner1 @ a.mT, y2.mT @ inner1, y1.mT @ inner2


def first_half_feeds_only_itself(ctx: Any, g1: Tensor, g2: Tensor) -> Grads:
    y1, y2, a, b = ctx.saved_tensors
    second = torch.tanh(y1 @ b)
    x2, inner2 = y2 - second, g2 * (1 - second**2)
    inner1 = g1 * (1 - torch.tanh(x2 @ a) ** 2)
    return g1.clone(), g2 + inner1 @ a.mT, x2.mT @ inner1, y1.mT @ inner2


def coupled(x1: Tensor, x2: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    y1 = x1 + torch.tanh(x2 @ a)
    return y1, x2 + torch.tanh(y1 @ b)


_BLOCK = (
    normal(2, 3),
    normal(2, 3, seed=1),
    0.3 * normal(3, 3, seed=2),
    0.3 * normal(3, 3, seed=3),
)


OPERATIONS = (
    Operation(
        "Givens rotation",
        Givens,
        (normal(5), normal(5, seed=1)),
        lambda a, b: (torch.hypot(a, b), a / torch.hypot(a, b), b / torch.hypot(a, b)),
        (
            Mutant("missing-dependency", length_alone),
            Mutant("none-grad-output", none_not_expected),
            Mutant("silent-double-backward", methods={"forward": copies_of_the_outputs_saved}),
        ),
        allowed=CHEAP,
    ),
    Operation(
        "least and largest of each row",
        MinMax,
        (normal(3, 5),),
        lambda x: (x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)),
        (
            Mutant("permuted-gradient", least_and_largest_exchanged),
            Mutant("gradient-dtype", shared_in_float32),
        ),
    ),
    Operation(
        "invertible coupling block",
        Coupling,
        _BLOCK,
        coupled,
        (
            Mutant("gradient-mismatch", outputs_taken_for_inputs),
            Mutant("missing-dependency", first_half_feeds_only_itself),
        ),
        allowed={"wasted-gradient": "its gradients are one chain, each the next one's start"},
    ),
)
