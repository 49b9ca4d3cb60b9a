"""Convolution along one dim, with stride, padding and groups."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad


class Conv1d(torch.autograd.Function):
    """Slide a kernel along the last dim (a cross-correlation, as in ``torch.nn.Conv1d``).

    Forward: ``y[o, t] = Σ_{c,k} w[o, c, k] · x[c, s·t + k - p]``, with stride ``s`` and ``p`` zeros
    on each side. The output channels of each group use only the input channels of the same group.
    Backward, with ``g = ∂L/∂y``: each product ``w · x`` in the sum adds ``g[o, t] · x`` to the
    gradient of ``w`` and ``g[o, t] · w`` to the gradient of ``x``.

    Backward computes gradients only for inputs that require them. Twice differentiable.

    Args:
        x: ``(N, C, L)``, real floating-point dtype.
        weight: ``(O, C / groups, K)``, with the same dtype as ``x``.
        stride: The distance between neighboring windows.
        padding: The number of zeros on each side.
        groups: The number of channel groups.

    Returns:
        ``(N, O, T)`` with ``T = ⌊(L + 2p - K) / s⌋ + 1``.

    Example:
        >>> import torch
        >>> Conv1d.apply(torch.ones(1, 2, 10), torch.ones(4, 2, 3), 2, 1).shape
        torch.Size([1, 4, 5])
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, stride: int = 1, padding: int = 0, groups: int = 1
    ) -> Tensor:
        """Return the convolution and save both tensors."""
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding, ctx.groups = stride, padding, groups
        seen = windows(x, weight.shape[-1], stride, padding, groups)
        y = torch.einsum("ngctk,gock->ngot", seen, weight.unflatten(0, (groups, -1)))
        return y.flatten(1, 2).clone()  # not a view, so that relu_() can follow

    @staticmethod
    def backward(
        ctx: Any, grad_output: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        """Return the gradients of ``x`` and ``weight``."""
        x, weight = ctx.saved_tensors
        needs_x, needs_weight = ctx.needs_input_grad[:2]
        g = grad_output.unflatten(1, (ctx.groups, -1))
        grad_x = grad_weight = None
        if needs_x:
            spread = torch.einsum("ngot,gock->ngctk", g, weight.unflatten(0, (ctx.groups, -1)))
            grad_x = overlapped(spread, x.shape, ctx.stride, ctx.padding)
        if needs_weight:
            seen = windows(x, weight.shape[-1], ctx.stride, ctx.padding, ctx.groups)
            grad_weight = torch.einsum("ngot,ngctk->gock", g, seen).flatten(0, 1)
        return grad_x, grad_weight, None, None, None


def windows(x: Tensor, size: int, stride: int, padding: int, groups: int) -> Tensor:
    """Return all windows that the kernel covers: ``(N, groups, C / groups, T, size)``."""
    padded = pad(x, (padding, padding))
    seen: Tensor = padded.unfold(-1, size, stride).unflatten(1, (groups, -1))
    return seen


def overlapped(spread: Tensor, shape: torch.Size, stride: int, padding: int) -> Tensor:
    """Sum the windows where they overlap, and remove the padding (the VJP of :func:`windows`)."""
    steps, size = spread.shape[-2:]
    length = shape[-1] + 2 * padding
    at = torch.arange(steps, device=spread.device)[:, None] * stride
    at = (at + torch.arange(size, device=spread.device)).reshape(-1)
    flat = spread.reshape(*shape[:-1], steps * size)
    summed = flat.new_zeros((*shape[:-1], length)).index_add(-1, at, flat)
    return summed.narrow(-1, padding, shape[-1])
