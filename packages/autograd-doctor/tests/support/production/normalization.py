"""Normalization: layer norm, RMS norm and group norm."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from production.operation import CHEAP, Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


def standardized(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the standardized rows, and the inverse of their standard deviation."""
    var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    rstd = (var + eps).rsqrt()
    return (x - mean) * rstd, rstd


def row_mean(x: Tensor) -> Tensor:
    return x.mean(-1, keepdim=True)


class LayerNorm(Function):
    """Layer norm over the last axis.

    It recomputes its statistics, so it is twice differentiable.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return standardized(x, eps)[0] * weight + bias

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias, *_ = ctx.needs_input_grad
        unit, rstd = standardized(x, ctx.eps)
        rows = tuple(range(g.dim() - 1))
        grad_x = None
        if needs_x:
            inner = g * weight
            grad_x = rstd * (inner - row_mean(inner) - unit * row_mean(inner * unit))
        grad_weight = (g * unit).sum(rows) if needs_weight else None
        return grad_x, grad_weight, g.sum(rows) if needs_bias else None, None


def mean_held_fixed(ctx: Any, g: Tensor) -> Grads:
    x, weight = ctx.saved_tensors
    unit, rstd = standardized(x, ctx.eps)
    inner = g * weight
    grad_x = rstd * (inner - unit * row_mean(inner * unit))
    return grad_x, (g * unit).sum((0, 1)), g.sum((0, 1)), None


def variance_held_fixed(ctx: Any, g: Tensor) -> Grads:
    x, weight = ctx.saved_tensors
    unit, rstd = standardized(x, ctx.eps)
    inner = g * weight
    return rstd * (inner - row_mean(inner)), (g * unit).sum((0, 1)), g.sum((0, 1)), None


def n_minus_one_in_the_variance(
    ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5
) -> Tensor:
    ctx.save_for_backward(x, weight)
    ctx.eps = eps
    return (x - row_mean(x)) / (x.var(-1, keepdim=True) + eps).sqrt() * weight + bias


class StatisticsSaved(LayerNorm):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
        unit, rstd = standardized(x, eps)
        ctx.save_for_backward(unit, rstd, weight)
        return unit * weight + bias

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        unit, rstd, weight = ctx.saved_tensors
        inner = g * weight
        grad_x = rstd * (inner - row_mean(inner) - unit * row_mean(inner * unit))
        return grad_x, (g * unit).sum((0, 1)), g.sum((0, 1)), None


def weight_sums_the_batch_only(ctx: Any, g: Tensor) -> Grads:
    x, weight = ctx.saved_tensors
    unit, rstd = standardized(x, ctx.eps)
    inner = g * weight
    grad_x = rstd * (inner - row_mean(inner) - unit * row_mean(inner * unit))
    return grad_x, (g * unit).sum(0), g.sum(0), None


def plain_layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, weight.shape, weight, bias)


class RMSNorm(Function):
    """Division by the root mean square over the last axis. It supports torch.func."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, ctx.eps = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        x, weight = ctx.saved_tensors
        scale = (x.square().mean(-1, keepdim=True) + ctx.eps).rsqrt()
        inner = g * weight
        grad_x = scale * inner - scale**3 * x * (inner * x).mean(-1, keepdim=True)
        return grad_x, (g * x * scale).sum(tuple(range(g.dim() - 1))), None


def root_mean_square_held_fixed(ctx: Any, g: Tensor) -> Grads:
    x, weight = ctx.saved_tensors
    scale = (x.square().mean(-1, keepdim=True) + ctx.eps).rsqrt()
    return g * weight * scale, (g * x * scale).sum(0), None


class GroupNorm(Function):
    """Group norm for ``(N, C, L)``, with a weight and a bias for each channel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: int, weight: Tensor, bias: Tensor) -> Tensor:
        unit, _ = standardized(x.reshape(x.shape[0], groups, -1), 1e-5)
        ctx.save_for_backward(x, weight)
        ctx.groups = groups
        return unit.reshape(x.shape) * weight[:, None] + bias[:, None]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        x, weight = ctx.saved_tensors
        unit, rstd = standardized(x.reshape(x.shape[0], ctx.groups, -1), 1e-5)
        inner = (g * weight[:, None]).reshape(unit.shape)
        grad_x = rstd * (inner - row_mean(inner) - unit * row_mean(inner * unit))
        grad_weight = (g * unit.reshape(g.shape)).sum((0, 2))
        return grad_x.reshape(x.shape), None, grad_weight, g.sum((0, 2))


def groups_by_view(ctx: Any, x: Tensor, groups: int, weight: Tensor, bias: Tensor) -> Tensor:
    x.view(x.shape[0], groups, -1)
    return GroupNorm.forward(ctx, x, groups, weight, bias)


def no_place_for_the_groups(ctx: Any, g: Tensor) -> Grads:
    grad_x, _, grad_weight, grad_bias = GroupNorm.backward(ctx, g)
    return grad_x, grad_weight, grad_bias


OPERATIONS = (
    Operation(
        "layer norm",
        LayerNorm,
        (normal(2, 3, 4), normal(4, seed=1), normal(4, seed=2)),
        plain_layer_norm,
        (
            Mutant("missing-dependency", mean_held_fixed),
            Mutant("missing-dependency", variance_held_fixed),
            Mutant("unreduced-broadcast", weight_sums_the_batch_only),
            Mutant(
                "forward-mismatch",
                methods={"forward": n_minus_one_in_the_variance},
                options={"reference": plain_layer_norm},
            ),
            Mutant("silent-double-backward", fn=StatisticsSaved),
        ),
    ),
    Operation(
        "RMS norm",
        RMSNorm,
        (normal(3, 4), normal(4, seed=1), 1e-6),
        lambda x, weight, eps: F.rms_norm(x, (4,), weight, eps),
        (Mutant("missing-dependency", root_mean_square_held_fixed),),
        allowed=CHEAP,
    ),
    Operation(
        "group norm",
        GroupNorm,
        (normal(2, 4, 3), 2, normal(4, seed=1), normal(4, seed=2)),
        F.group_norm,
        (
            Mutant("wrong-arity", no_place_for_the_groups),
            Mutant("input-layout", methods={"forward": groups_by_view}),
        ),
        allowed=CHEAP,
    ),
)
