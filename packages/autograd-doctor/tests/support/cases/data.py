"""Arguments that are data and not differentiated: labels, masks, rotations, running statistics."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cases.making import Case, draw, raw, saving

LOGITS = draw(3, 4).requires_grad_()
LABELS = torch.tensor([2, 1, 3])  # numbered from 1
ONE_HOT = torch.nn.functional.one_hot(LABELS, 4).double()
HEADS = draw(2, 3, 4).requires_grad_()
ANGLES = torch.arange(3.0)[:, None] * torch.tensor([1.0, 0.1, 1.0, 0.1])
CAUSAL = torch.ones(3, 4, dtype=torch.bool).tril()


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return -(target * logits.log_softmax(-1)).sum()


def half_turned(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return x * cos + half_turned(x) * sin


def masked_softmax(scores: Tensor, mask: Tensor, dim: int) -> Tensor:
    return scores.masked_fill(~mask, -1e9).softmax(dim).masked_fill(~mask, 0)


def masked(axis: int | None) -> Any:
    """Return a masked softmax whose backward sums over ``axis``, or over the call's axis by
    default.
    """

    def forward(ctx: Any, scores: Tensor, mask: Tensor, dim: int) -> Tensor:
        ctx.save_for_backward(scores, mask)
        ctx.dim = dim
        return masked_softmax(scores, mask, dim)

    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        y = masked_softmax(*ctx.saved_tensors, ctx.dim)
        return y * (g - (g * y).sum(ctx.dim if axis is None else axis, keepdim=True)), None, None

    return raw(forward, backward)


def centered(x: Tensor, running_mean: Tensor) -> Tensor:
    running_mean.lerp_(x.mean(0), 0.1)
    return x - x.mean(0)


def summed_over_labels(x: Tensor, labels: Tensor) -> Tensor:
    labels -= 1
    return x[labels].sum(0)


def backward_of_rows(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    (labels,) = ctx.saved_tensors
    return g.new_zeros(3, 4).index_add_(0, labels, g.expand(len(labels), 4)), None


def keeping_labels(ctx: Any, x: Tensor, labels: Tensor) -> Tensor:
    rows = summed_over_labels(x, labels)
    ctx.save_for_backward(labels)
    return rows


WITNESSES = [
    Case(
        "missing-gradient",
        "a target that nobody says is data",
        saving(cross_entropy, lambda x, t, g: (g * (x.softmax(-1) - t), None)),
        (LOGITS.detach(), ONE_HOT),
    ),
    Case(
        "dim-argument",
        "the last axis written into backward, beside a mask of lower rank",
        masked(-1),
        (HEADS, CAUSAL, -1),
    ),
    Case(
        "mutates-input",
        "labels, counted from one, are counted from zero in place",
        raw(keeping_labels, backward_of_rows),
        (LOGITS, LABELS),
    ),
    Case(
        "flipped-sign",
        "beside running statistics, which do not hide it",
        saving(centered, lambda x, mean, g: (g.mean(0) - g, None)),
        (LOGITS, torch.zeros(4)),
    ),
]

LOOKALIKES = [
    Case(
        "missing-dependency",
        "softmax minus target, of a target that sums to one",
        saving(cross_entropy, lambda x, t, g: (g * (x.softmax(-1) - t), None)),
        (LOGITS, ONE_HOT),
    ),
    Case(
        "gradient-mismatch",
        "a rotation back, of angles that come twice",
        saving(rotated, lambda x, c, s, g: (g * c - half_turned(g) * s, None, None)),
        (HEADS, ANGLES.cos(), ANGLES.sin()),
    ),
    Case(
        "dim-argument",
        "a mask of lower rank, which is broadcast",
        masked(None),
        (HEADS, CAUSAL, -1),
    ),
]
