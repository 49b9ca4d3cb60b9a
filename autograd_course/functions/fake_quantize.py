"""Fake quantization: round to a few floating-point levels, with a learned step."""

from typing import Any

import torch
from torch import Tensor


class FakeQuantize(torch.autograd.Function):
    """Round each element to the nearest of the levels ``low·step … high·step``.

    Forward: with ``v = x / step`` and ``n = clamp(round(v), low, high)``, ``y = step · n``.

    Declared surrogate: where ``low ≤ v ≤ high`` ("inside"), the rounding error ``n - v`` is treated
    as a constant, so ``h = x + step · (n - v)``. Elsewhere ``n`` is treated as a constant, so
    ``h = step · n``. Therefore

    ``∂L/∂x := ∂L/∂y`` inside, and 0 outside;
    ``∂L/∂step := Σ ∂L/∂y · s``, with ``s = n - v`` inside and ``s = n`` outside.

    At ``v = low`` and ``v = high``, the gradient passes, as in ``torch.clamp`` up to PyTorch 2.13.
    The Function saves its inputs. Twice differentiable: the second derivative follows from these
    formulas.

    Args:
        x: Any shape, real floating-point dtype.
        step: A positive tensor with one element. All elements of ``x`` share it, so its gradient is
            a sum over all of them.
        low: The lowest level, a Python integer that is at most 0.
        high: The highest level, a Python integer that is at least 0.

    Returns:
        The quantized tensor, with the same shape and dtype as ``x``.

    Raises:
        ValueError: ``step`` does not have exactly one element.

    Example:
        >>> import torch
        >>> FakeQuantize.apply(torch.tensor([0.2, 0.4, 9.0]), torch.tensor(0.5), -2, 1)
        tensor([0.0000, 0.5000, 0.5000])

    Source: Esser et al., "Learned step size quantization", 2020.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
        """Return the quantized ``x``, and save ``x`` and ``step``."""
        if step.numel() != 1:
            raise ValueError(f"FakeQuantize has one step for all, got {step.numel()} of them")
        ctx.save_for_backward(x, step)
        ctx.low, ctx.high = low, high
        return (x / step).round().clamp(low, high) * step

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of ``x``, and the summed gradient of ``step``."""
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
