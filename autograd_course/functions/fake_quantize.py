"""Quantization to a few levels, in floating point, with a step that is learned."""

from typing import Any

import torch
from torch import Tensor


class FakeQuantize(torch.autograd.Function):
    """Round to the nearest of the levels ``low·step … high·step``.

    Forward: with ``v = x / step`` and ``n = clamp(round(v), low, high)``, ``y = step · n``.
    Declared surrogate: the rounding error ``n - v`` is held constant where ``low ≤ v ≤ high``, and
    ``n`` elsewhere, which makes ``h = x + step · (n - v)`` inside and ``h = step · n`` outside:

    ``∂L/∂x := ∂L/∂y`` inside, 0 outside;
    ``∂L/∂step := Σ ∂L/∂y · s``, with ``s = n - v`` inside and ``s = n`` outside.

    At ``v = low`` and ``v = high`` the gradient passes, as in ``torch.clamp`` up to PyTorch 2.13.

    Shapes: ``x`` and ``y`` alike, any shape; ``step`` is a positive tensor of one element, which
    all share, so its gradient is the sum over all. ``low ≤ 0 ≤ high`` are Python integers. Real
    floating dtypes. Saves its inputs. Twice differentiable: the second derivative is that of these
    two formulas. Source: Esser et al. 2020, Learned Step Size Quantization.

    Raises ``ValueError`` for a step that is not one element.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
        """Return ``x`` on the grid, saving ``x`` and ``step``."""
        if step.numel() != 1:
            raise ValueError(f"FakeQuantize has one step for all, got {step.numel()} of them")
        ctx.save_for_backward(x, step)
        ctx.low, ctx.high = low, high
        return (x / step).round().clamp(low, high) * step

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of ``x`` and, summed, that of ``step``."""
        x, step = ctx.saved_tensors
        grad_x = grad_step = None
        v = x / step
        inside = (v >= ctx.low) & (v <= ctx.high)
        if ctx.needs_input_grad[0]:
            grad_x = torch.where(inside, grad_output, 0)
        if ctx.needs_input_grad[1]:
            n = v.round().clamp(ctx.low, ctx.high)
            slope = torch.where(inside, n - v, n)
            grad_step = (grad_output * slope).sum().reshape(step.shape)
        return grad_x, grad_step, None, None
