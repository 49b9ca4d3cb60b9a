"""Backward passes that deliberately differ from forward's derivative: quantizers, sampling."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from production.operation import CHEAP, ONCE, Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


class FakeQuantize(Function):
    """Rounding to an integer grid with a learned scale and zero point."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor, zero_point: Tensor, low: int = -8, high: int = 7
    ) -> Tensor:
        ctx.save_for_backward(x, scale, zero_point)
        ctx.range = low, high
        return ((x / scale + zero_point).round().clamp(low, high) - zero_point) * scale

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        x, scale, zero_point = ctx.saved_tensors
        low, high = ctx.range
        level = x / scale + zero_point
        grid = level.round().clamp(low, high)
        inside = (level >= low) & (level <= high)
        grad_scale = g * torch.where(inside, grid - level, grid - zero_point)
        return g * inside, grad_scale.sum(), -(g * ~inside).sum() * scale, None, None


def straight_through(
    x: Tensor, scale: Tensor, zero_point: Tensor, low: int = -8, high: int = 7
) -> Tensor:
    """The declared function, in which rounding passes a gradient like the identity."""
    level = (x / scale + zero_point).clamp(low, high)
    grid = level + (level.round() - level).detach()
    return (grid - zero_point) * scale


def saturated_values_pass_too(ctx: Any, g: Tensor) -> Grads:
    _, *rest = FakeQuantize.backward(ctx, g)
    return g.clone(), *rest


def scale_of_the_saturated_only(ctx: Any, g: Tensor) -> Grads:
    grad_x, _, *rest = FakeQuantize.backward(ctx, g)
    x, scale, zero_point = ctx.saved_tensors
    grid = (x / scale + zero_point).round().clamp(*ctx.range)
    return grad_x, (g * (grid - zero_point)).sum(), *rest


class RoundStraightThrough(Function):
    """Rounding with the gradient of the identity. It saves nothing."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g.clone()


def round_to(x: Tensor, *, step: float = 0.25) -> Tensor:
    """Round to multiples of a step."""
    return RoundStraightThrough.apply(x / step) * step


def gumbel(x: Tensor) -> Tensor:
    uniform = torch.rand(x.shape, dtype=torch.float64).to(x).clamp(1e-9, 1 - 1e-9)
    return -(-uniform.log()).log()


class GumbelSoftmax(Function):
    """A one-hot sample with the gradient of the soft sample."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, temperature: float) -> Tensor:
        soft = ((logits + gumbel(logits)) / temperature).softmax(-1)
        ctx.save_for_backward(soft)
        ctx.temperature = temperature
        return torch.zeros_like(soft).scatter(-1, soft.argmax(-1, keepdim=True), 1.0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Grads:
        (soft,) = ctx.saved_tensors
        return soft * (g - (g * soft).sum(-1, keepdim=True)) / ctx.temperature, None


def soft_sample(logits: Tensor, temperature: float) -> Tensor:
    return ((logits + gumbel(logits)) / temperature).softmax(-1)


def hard_sample(logits: Tensor, temperature: float) -> Tensor:
    soft = soft_sample(logits, temperature)
    return (soft == soft.amax(-1, keepdim=True)).to(soft) + 0 * soft


def passed_straight_through(ctx: Any, g: Tensor) -> Grads:
    return g.clone(), None


def temperature_forgotten(ctx: Any, g: Tensor) -> Grads:
    return GumbelSoftmax.backward(ctx, g)[0] * ctx.temperature, None


_WEIGHTS = (2 * normal(3, 4), torch.tensor(0.25), torch.tensor(1.0), -8, 7)


_STE = "a rounding passes its gradient straight through"


OPERATIONS = (
    Operation(
        "fake quantization with a learned scale",
        FakeQuantize,
        _WEIGHTS,
        straight_through,
        (
            Mutant("wrong-region", saturated_values_pass_too),
            Mutant("missing-dependency", scale_of_the_saturated_only),
        ),
        options={"surrogate": straight_through},
        allowed=CHEAP,
        inexact=_STE,
    ),
    Operation(
        "rounding to a step",
        round_to,
        (normal(3, 4),),
        lambda x: (x / 0.25).round() * 0.25,
        (Mutant("undeclared-surrogate", fn=round_to, options={"surrogate": None}),),
        options={"surrogate": lambda x: 1.0 * x},
        inexact=_STE,
    ),
    Operation(
        "one-hot Gumbel softmax",
        GumbelSoftmax,
        (normal(3, 4), 0.7),
        hard_sample,
        (
            Mutant("gradient-mismatch", passed_straight_through),
            Mutant("constant-factor", temperature_forgotten),
        ),
        options={"surrogate": soft_sample},
        allowed=ONCE,
        inexact="the gradient is the soft sample's",
    ),
)
