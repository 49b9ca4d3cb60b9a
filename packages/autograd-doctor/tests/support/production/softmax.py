"""Softmax and log-softmax, which save only their output."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from production.operation import Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


class Softmax(Function):
    """Softmax over any axis. It saves only its output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int = -1) -> Tensor:
        e = (x - x.amax(dim, keepdim=True)).exp()
        p = e / e.sum(dim, keepdim=True)
        ctx.save_for_backward(p)
        ctx.dim = dim
        return p

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        (p,) = ctx.saved_tensors
        return p * (g - (g * p).sum(ctx.dim, keepdim=True)), None


def largest_not_subtracted(ctx: Any, x: Tensor, dim: int = -1) -> Tensor:
    e = x.exp()
    p = e / e.sum(dim, keepdim=True)
    ctx.save_for_backward(p)
    ctx.dim = dim
    return p


def last_axis_summed_whatever_dim(ctx: Any, g: Tensor) -> Grads:
    (p,) = ctx.saved_tensors
    return p * (g - (g * p).sum(-1, keepdim=True)), None


def softmax_element_by_element(ctx: Any, g: Tensor) -> Grads:
    (p,) = ctx.saved_tensors
    return g * p * (1 - p), None


def normalizer_held_fixed(ctx: Any, g: Tensor) -> Grads:
    (p,) = ctx.saved_tensors
    return g * p, None


class LogSoftmax(Function):
    """Log-softmax over the last axis. It saves only its output and supports forward mode."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x - x.logsumexp(-1, keepdim=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return g - y.exp() * g.sum(-1, keepdim=True)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return tangent - (y.exp() * tangent).sum(-1, keepdim=True)


def tangent_not_summed(ctx: Any, tangent: Tensor) -> Tensor:
    (y,) = ctx.saved_tensors
    return tangent - y.exp() * tangent


def log_softmax_without_the_sum(ctx: Any, g: Tensor) -> Tensor:
    (y,) = ctx.saved_tensors
    return g - y.exp() * g


OPERATIONS = (
    Operation(
        "softmax over the first axis",
        Softmax,
        (normal(4, 3), 0),
        torch.softmax,
        (
            Mutant("missing-cross-terms", softmax_element_by_element),
            Mutant("missing-dependency", normalizer_held_fixed),
            Mutant("overflow", methods={"forward": largest_not_subtracted}),
        ),
    ),
    Operation(
        "softmax over the last axis",
        Softmax,
        (normal(3, 4), -1),
        torch.softmax,
        (Mutant("dim-argument", last_axis_summed_whatever_dim),),
    ),
    Operation(
        "log-softmax",
        LogSoftmax,
        (normal(3, 4),),
        lambda x: x.log_softmax(-1),
        (
            Mutant("missing-cross-terms", log_softmax_without_the_sum),
            Mutant("wrong-jvp", methods={"jvp": tangent_not_summed}),
        ),
    ),
)
