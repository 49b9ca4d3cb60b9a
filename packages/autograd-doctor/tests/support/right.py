"""Correct Functions of common kinds: elementwise, with numbers, linear, in place, with indices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


class Square(Function):
    """y = x²."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output


class ScaledSigmoid(Function):
    """y = scale · σ(slope · x)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float, scale: float) -> Tensor:
        s = torch.sigmoid(slope * x)
        ctx.slope, ctx.scale = slope, scale
        ctx.save_for_backward(x)
        return scale * s

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(ctx.slope * x)
        return ctx.scale * ctx.slope * s * (1 - s) * grad_output, None, None


class Linear(Function):
    """y = x Wᵀ."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_x, of_weight = ctx.needs_input_grad
        return (
            grad_output @ weight if of_x else None,
            grad_output.flatten(0, -2).T @ x.flatten(0, -2) if of_weight else None,
        )


class LeakyReLUInPlace(Function):
    """x ← x where x > 0, slope · x elsewhere, for a positive slope."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float) -> Tensor:
        x.mul_(torch.where(x > 0, 1.0, slope))
        ctx.mark_dirty(x)
        ctx.slope = slope
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        return torch.where(y > 0, grad_output, ctx.slope * grad_output), None


class Sort(Function):
    """The sorted elements along the last dim, and their original positions."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        ordered, index = x.sort(-1)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(index)
        return ordered, index

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor, _: Tensor) -> Tensor:
        (index,) = ctx.saved_tensors
        return torch.zeros_like(grad_output).scatter(-1, index, grad_output)


class GradientReversal(Function):
    """y = x, with the gradient -strength · grad_output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, strength: float) -> Tensor:
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        return -ctx.strength * grad_output, None
