"""Batch norm: a Function, and the layer around it that keeps running statistics."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from production.operation import CHEAP, ONCE, Mutant, Operation, changed, normal

Grads = tuple[Tensor | None, ...]


class BatchNormTraining(Function):
    """Batch norm for ``(N, C, L)``. It returns the statistics of the batch, for the buffers."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Grads:
        var, mean = torch.var_mean(x, (0, 2), correction=0, keepdim=True)
        rstd = (var + eps).rsqrt()
        ctx.save_for_backward(x, weight, mean, rstd)
        ctx.mark_non_differentiable(mean, var)
        return (x - mean) * rstd * weight[:, None] + bias[:, None], mean, var

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor, *_: Tensor) -> Grads:
        x, weight, mean, rstd = ctx.saved_tensors
        unit, n = (x - mean) * rstd, x.numel() // x.shape[1]
        grad_weight, grad_bias = (g * unit).sum((0, 2)), g.sum((0, 2))
        centered = g - (grad_bias[:, None] + unit * grad_weight[:, None]) / n
        return centered * rstd * weight[:, None], grad_weight, grad_bias, None


class BatchNorm(nn.Module):
    """The layer around the Function, with parameters and with running statistics for evaluation."""

    function = BatchNormTraining
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, momentum: float = 0.1) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.5 * normal(channels, seed=7))
        self.bias = nn.Parameter(normal(channels, seed=8))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))
        self.momentum = momentum

    def forward(self, x: Tensor) -> Tensor:
        y, mean, var = self.function.apply(x, self.weight, self.bias, 1e-5)
        with torch.no_grad():
            self.running_mean.lerp_(mean.flatten(), self.momentum)
            self.running_var.lerp_(var.flatten(), self.momentum)
        return y


def statistics_held_fixed(ctx: Any, g: Tensor, *_: Tensor) -> Grads:
    x, weight, mean, rstd = ctx.saved_tensors
    unit = (x - mean) * rstd
    return g * rstd * weight[:, None], (g * unit).sum((0, 2)), g.sum((0, 2)), None


class BatchNormFixedStatistics(BatchNorm):
    function = changed(BatchNormTraining, backward=statistics_held_fixed)


_LAYER = BatchNorm(2)


OPERATIONS = (
    Operation(
        "batch norm with running statistics",
        _LAYER,
        (normal(3, 2, 4),),
        lambda x: F.batch_norm(
            x, None, None, _LAYER.weight.to(x), _LAYER.bias.to(x), training=True
        ),
        (Mutant("missing-dependency", fn=BatchNormFixedStatistics(2)),),
        allowed=ONCE | CHEAP,
    ),
)
