"""The identity with a deliberately reversed or clipped gradient."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function

from production.operation import Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


class GradientReversal(Function):
    """The identity with a negated and scaled gradient, for domain-adversarial training."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, strength: float = 1.0) -> Tensor:
        ctx.strength = strength
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        return -ctx.strength * g, None


def view_of_the_input(ctx: Any, x: Tensor, strength: float = 1.0) -> Tensor:
    ctx.strength = strength
    return x.view_as(x)


def strength_forgotten(ctx: Any, g: Tensor) -> Grads:
    return -g, None


def not_reversed(ctx: Any, g: Tensor) -> Grads:
    return ctx.strength * g, None


class ClipGradient(Function):
    """The identity with a gradient whose norm is clipped."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, largest: float) -> Tensor:
        ctx.largest = largest
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        return g * (ctx.largest / g.norm()).clamp(max=1), None


def clipped_in_place(ctx: Any, g: Tensor) -> Grads:
    return g.clamp_(-ctx.largest, ctx.largest), None


OPERATIONS = (
    Operation(
        "gradient reversal",
        GradientReversal,
        (normal(3, 4), 0.3),
        lambda x, strength: 1.0 * x,
        (
            Mutant("constant-factor", strength_forgotten),
            Mutant("flipped-sign", not_reversed),
            Mutant("returns-view", methods={"forward": view_of_the_input}),
        ),
        options={"surrogate": lambda x, strength: -strength * x},
        inexact="the gradient is reversed",
    ),
    Operation(
        "gradient clipping",
        ClipGradient,
        (normal(3, 4), 1.0),
        lambda x, largest: 1.0 * x,
        (
            Mutant("mutates-grad-output", clipped_in_place),
            Mutant("nonlinear-in-grad-output", fn=ClipGradient, options={"intentional": ()}),
        ),
        options={"intentional": "nonlinear-in-grad-output"},
        inexact="the gradient is clipped",
    ),
)
