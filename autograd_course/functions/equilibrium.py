"""A layer that is run to its fixed point, with the gradient of the fixed point."""

from typing import Any

import torch
from torch import Tensor

ROUNDS = 200


class Equilibrium(torch.autograd.Function):
    """The fixed point of ``z = tanh(z Wᵀ + x)``, for every row of ``x``.

    Forward: repeat the layer until it changes nothing any more. Backward, with ``g = ∂L/∂z`` and
    ``s = 1 - z²``, the slope of tanh: by the implicit function theorem one linear system a row,
    ``u (I - diag(s) W) = g``; then, with ``v = u∘s``, ``∂L/∂x = v`` and ``∂L/∂W = vᵀ z``.

    Keeps ``W`` and the fixed point, however many rounds it took. The system is solved by
    ``torch.linalg.solve`` from a saved input and the output: every order is right.
    Shapes: ``x`` and ``z`` are ``(rows, n)``, ``W`` is ``(n, n)``; backward needs ``rows · n²``
    numbers for a moment. float32 and float64, one for both.

    Raises ``RuntimeError`` if it has not settled after 200 rounds: it does where the absolute
    values of each row of ``W`` add up to no more than 0.8.

    Source: Bai, Kolter and Koltun, "Deep equilibrium models" (2019).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """Return the fixed point, saving it."""
        z = settled(x, weight)
        ctx.save_for_backward(weight, z)
        return z

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Solve for ``u``; return the gradients of ``x`` and ``weight``."""
        weight, z = ctx.saved_tensors
        slope = 1 - z.square()
        system = torch.eye(z.shape[1], dtype=z.dtype, device=z.device) - slope[:, :, None] * weight
        u = torch.linalg.solve(system.mT, grad_output[:, :, None])[:, :, 0]
        v = u * slope
        needs_x, needs_weight = ctx.needs_input_grad
        return v if needs_x else None, v.t() @ z if needs_weight else None


def settled(x: Tensor, weight: Tensor) -> Tensor:
    """Return ``z`` with ``z = tanh(z Wᵀ + x)`` to the dtype's precision, or raise."""
    z = torch.tanh(x)
    near = 4 * torch.finfo(x.dtype).eps
    for _ in range(ROUNDS):
        z, before = torch.tanh(z @ weight.t() + x), z
        if not z.numel() or bool((z - before).abs().max() <= near):
            return z
    raise RuntimeError(f"no fixed point was found in {ROUNDS} rounds: is W too large?")
