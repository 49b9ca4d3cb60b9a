"""An implicit layer: a fixed point that is differentiated without its iteration."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from production.operation import Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


class FixedPoint(Function):
    """The solution z of ``z = tanh(W z + x)``. Backward solves one linear system."""

    @staticmethod
    def forward(ctx: Any, w: Tensor, x: Tensor) -> Tensor:
        z = iterate(w, x)
        ctx.save_for_backward(w, z)
        return z

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        w, z = ctx.saved_tensors
        slope = 1 - z**2
        eye = torch.eye(len(z), dtype=z.dtype, device=z.device)
        grad_x = slope * torch.linalg.solve((eye - slope[:, None] * w).mT, g)
        return torch.outer(grad_x, z) if ctx.needs_input_grad[0] else None, grad_x


def iterate(w: Tensor, x: Tensor) -> Tensor:
    z = torch.zeros_like(x)
    for _ in range(80):
        z = torch.tanh(w @ z + x)
    return z


def last_step_only(ctx: Any, g: Tensor) -> Grads:
    _, z = ctx.saved_tensors
    grad_x = (1 - z**2) * g
    return torch.outer(grad_x, z), grad_x


def outer_product_turned(ctx: Any, g: Tensor) -> Grads:
    grad_w, grad_x = FixedPoint.backward(ctx, g)
    return grad_w.mT, grad_x


OPERATIONS = (
    Operation(
        "implicit fixed point",
        FixedPoint,
        (0.1 * normal(3, 3), normal(3, seed=1)),
        iterate,
        (
            Mutant("gradient-mismatch", last_step_only),
            Mutant("transposed-gradient", outer_product_turned),
        ),
    ),
)
