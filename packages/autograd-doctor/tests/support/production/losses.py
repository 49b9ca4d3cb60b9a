"""Losses: cross entropy with ignored elements, focal loss and Huber loss."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from production.operation import CHEAP, Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


IGNORED = -100


class CrossEntropy(Function):
    """Mean cross entropy over the targets that are not ignored, with label smoothing."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, smoothing: float = 0.0) -> Tensor:
        ctx.save_for_backward(logits, target)
        ctx.smoothing = smoothing
        counts, wanted = wanted_distribution(logits, target, smoothing)
        losses = -(wanted * logits.log_softmax(-1)).sum(-1)
        return (losses * counts).sum() / counts.sum()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        logits, target = ctx.saved_tensors
        counts, wanted = wanted_distribution(logits, target, ctx.smoothing)
        weight = (counts / counts.sum())[:, None]
        return g * (logits.softmax(-1) - wanted) * weight, None, None


def wanted_distribution(logits: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Return a mask of the targets that count, and the wanted distribution for each of them."""
    counts = target != IGNORED
    one_hot = F.one_hot(target.where(counts, 0), logits.shape[-1]).to(logits.dtype)
    return counts.to(logits.dtype), (1 - smoothing) * one_hot + smoothing / logits.shape[-1]


def divides_by_all_targets(ctx: Any, g: Tensor) -> Grads:
    logits, target = ctx.saved_tensors
    counts, wanted = wanted_distribution(logits, target, ctx.smoothing)
    return g * (logits.softmax(-1) - wanted) * counts[:, None] / len(target), None, None


def ignored_targets_push_too(ctx: Any, g: Tensor) -> Grads:
    logits, target = ctx.saved_tensors
    counts, wanted = wanted_distribution(logits, target, ctx.smoothing)
    return g * (logits.softmax(-1) - wanted) / counts.sum(), None, None


def smoothing_forgotten(ctx: Any, g: Tensor) -> Grads:
    logits, target = ctx.saved_tensors
    counts, wanted = wanted_distribution(logits, target, 0.0)
    return g * (logits.softmax(-1) - wanted) * (counts / counts.sum())[:, None], None, None


class FocalLoss(Function):
    """The binary focal loss for each logit: ``-(1 - p)^γ log p``."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, is_positive: Tensor, gamma: float) -> Tensor:
        ctx.save_for_backward(logits, is_positive)
        ctx.gamma = gamma
        sign = 2 * is_positive.to(logits.dtype) - 1
        return -(torch.sigmoid(-sign * logits) ** gamma) * F.logsigmoid(sign * logits)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        logits, is_positive = ctx.saved_tensors
        sign = 2 * is_positive.to(logits.dtype) - 1
        log_p, p, q = (
            F.logsigmoid(sign * logits),
            *map(torch.sigmoid, (sign * logits, -sign * logits)),
        )
        return g * sign * q**ctx.gamma * (ctx.gamma * p * log_p - q), None, None


def modulation_held_fixed(ctx: Any, g: Tensor) -> Grads:
    logits, is_positive = ctx.saved_tensors
    sign = 2 * is_positive.to(logits.dtype) - 1
    return -g * sign * torch.sigmoid(-sign * logits) ** (ctx.gamma + 1), None, None


def negatives_keep_their_sign(ctx: Any, g: Tensor) -> Grads:
    grad_logits, *rest = FocalLoss.backward(ctx, g)
    _, is_positive = ctx.saved_tensors
    return grad_logits.where(is_positive, -grad_logits), *rest


def plain_focal_loss(logits: Tensor, is_positive: Tensor, gamma: float) -> Tensor:
    p = torch.sigmoid(torch.where(is_positive, logits, -logits))
    return -((1 - p) ** gamma) * torch.log(p)


class HuberLoss(Function):
    """The mean Huber loss, which is a parabola up to ``delta`` and linear beyond it."""

    @staticmethod
    def forward(ctx: Any, prediction: Tensor, target: Tensor, delta: float) -> Tensor:
        error = prediction - target
        ctx.save_for_backward(prediction, target)
        ctx.delta = delta
        near = error.abs() <= delta
        return torch.where(near, 0.5 * error**2, delta * (error.abs() - 0.5 * delta)).mean()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        prediction, target = ctx.saved_tensors
        slope = (prediction - target).clamp(-ctx.delta, ctx.delta)
        grad = g * slope / slope.numel()
        return grad, -grad, None


def grad_output_taken_for_one(ctx: Any, g: Tensor) -> Grads:
    prediction, target = ctx.saved_tensors
    slope = (prediction - target).clamp(-ctx.delta, ctx.delta)
    return slope / slope.numel(), -slope / slope.numel(), None


def sum_for_a_mean(ctx: Any, g: Tensor) -> Grads:
    prediction, target = ctx.saved_tensors
    slope = (prediction - target).clamp(-ctx.delta, ctx.delta)
    return g * slope, -g * slope, None


def target_pulls_the_same_way(ctx: Any, g: Tensor) -> Grads:
    grad, _, _ = HuberLoss.backward(ctx, g)
    return grad, grad, None


_TARGET = torch.tensor([2, 0, IGNORED, 1, 2])


OPERATIONS = (
    Operation(
        "cross entropy with ignored targets",
        CrossEntropy,
        (normal(5, 3), _TARGET, 0.1),
        lambda x, target, smoothing: F.cross_entropy(x, target, label_smoothing=smoothing),
        (
            Mutant("constant-factor", divides_by_all_targets),
            Mutant("wrong-region", ignored_targets_push_too),
            Mutant("gradient-mismatch", smoothing_forgotten),
        ),
    ),
    Operation(
        "focal loss",
        FocalLoss,
        (normal(7), torch.tensor([True, False, True, True, False, False, True]), 2.0),
        plain_focal_loss,
        (
            Mutant(
                "missing-dependency", modulation_held_fixed, options={"reference": plain_focal_loss}
            ),
            Mutant("wrong-region", negatives_keep_their_sign),
        ),
    ),
    Operation(
        "mean Huber loss",
        HuberLoss,
        (2 * normal(3, 4), normal(3, 4, seed=1), 1.0),
        lambda x, target, delta: F.huber_loss(x, target, delta=delta),
        (
            Mutant("ignores-grad-output", grad_output_taken_for_one),
            Mutant("constant-factor", sum_for_a_mean),
            Mutant("flipped-sign", target_pulls_the_same_way),
        ),
        allowed=CHEAP,
    ),
)
