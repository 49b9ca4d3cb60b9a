"""The fixed point of a repeated layer, and the gradient of the fixed point."""

from typing import Any

import torch
from torch import Tensor

ROUNDS = 200


class Equilibrium(torch.autograd.Function):
    """Find the fixed point of ``z = tanh(z Wᵀ + x)`` for each row of ``x``.

    Forward: repeat the layer until its output no longer changes. Backward, with ``g = ∂L/∂z`` and
    the slope ``s = 1 - z²`` of tanh: by the implicit function theorem, solve the linear system
    ``u (I - diag(s) W) = g`` for each row. With ``v = u∘s``, ``∂L/∂x = v`` and ``∂L/∂W = vᵀ z``.

    The Function saves only ``W`` and the fixed point, however many iterations forward needs.
    Backward solves the system with ``torch.linalg.solve`` from the saved weight and output, so
    derivatives of every order are correct. During the solve, backward needs memory for
    ``rows · n²`` numbers.

    Args:
        x: ``(rows, n)``, float32 or float64.
        weight: ``(n, n)``, with the same dtype as ``x``.

    Returns:
        The fixed point, ``(rows, n)``.

    Raises:
        RuntimeError: The output still changes after 200 iterations. This cannot happen if the
            absolute values in each row of ``W`` add up to at most 0.8.

    Example:
        >>> import torch
        >>> Equilibrium.apply(torch.tensor([[1.0]]), torch.tensor([[0.5]]))
        tensor([[0.8952]])

    Source: Bai, Kolter and Koltun, "Deep equilibrium models", 2019.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        """Return the fixed point and save it."""
        z = settled(x, weight)
        ctx.save_for_backward(weight, z)
        return z

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Solve for ``u``, and return the gradients of ``x`` and ``weight``."""
        weight, z = ctx.saved_tensors
        slope = 1 - z.square()
        system = torch.eye(z.shape[1], dtype=z.dtype, device=z.device) - slope[:, :, None] * weight
        u = torch.linalg.solve(system.mT, grad_output[:, :, None])[:, :, 0]
        v = u * slope
        needs_x, needs_weight = ctx.needs_input_grad
        return v if needs_x else None, v.t() @ z if needs_weight else None


def settled(x: Tensor, weight: Tensor) -> Tensor:
    """Solve ``z = tanh(z Wᵀ + x)`` for ``z`` to the precision of the dtype, or raise an error."""
    z = torch.tanh(x)
    near = 4 * torch.finfo(x.dtype).eps
    for _ in range(ROUNDS):
        z, before = torch.tanh(z @ weight.t() + x), z
        if not z.numel() or bool((z - before).abs().max() <= near):
            return z
    raise RuntimeError(f"no fixed point was found in {ROUNDS} rounds: is W too large?")
