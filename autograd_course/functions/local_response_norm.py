"""Local response normalization: each channel is damped by the channels beside it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import pad


class LocalResponseNorm(Function):
    """y_c = x_c · s_c^-β,  s_c = k + (α/n) Σ_{j ∈ W(c)} x_j²,  W(c) = {c - ⌊n/2⌋ … c + ⌊(n-1)/2⌋}.

    ∂L/∂x_j = s_j^-β · g_j - (2αβ/n) · x_j · Σ_{c: j ∈ W(c)} g_c · y_c / s_c,  g = ∂L/∂y.

    A channel is damped by the ``n`` of its window, and damps all in whose window it stands: of an
    even ``n`` the second window is the first one's mirror image. Windows end where the channels
    do. Saves ``x`` alone and computes ``s`` again: it is differentiable any number of times.

    ``x``: ``(N, C, …)``, real floating point; ``y`` has its shape and dtype. ``n``, ``alpha``,
    ``beta`` and ``k`` are numbers.
    Raises ``ValueError`` for an ``x`` without channels or an ``n`` below 1.
    Krizhevsky, Sutskever and Hinton, ImageNet Classification with Deep CNNs, 2012, section 3.3;
    the window of an even ``n`` as in :func:`torch.nn.functional.local_response_norm`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        n: int,
        alpha: float = 1e-4,
        beta: float = 0.75,
        k: float = 1.0,
    ) -> Tensor:
        """Return ``x · s^-β``, saving ``x``."""
        if x.dim() < 2 or n < 1:
            raise ValueError(
                f"LocalResponseNorm wants x of shape (N, C, …) and n of 1 or more, not "
                f"{tuple(x.shape)} and {n}"
            )
        ctx.save_for_backward(x)
        ctx.settings = n, alpha, beta, k
        return x * _scale(x, n, alpha, k) ** -beta

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of ``x``; the settings have none."""
        (x,) = ctx.saved_tensors
        n, alpha, beta, k = ctx.settings
        scale = _scale(x, n, alpha, k)
        damping = scale**-beta
        # What a channel's window took from its neighbors comes back through the mirrored window.
        ratio = grad_output * x * damping / scale
        shared = _window_sum(ratio, (n - 1) // 2, n // 2)
        return damping * grad_output - 2 * alpha * beta / n * x * shared, None, None, None, None


def _scale(x: Tensor, n: int, alpha: float, k: float) -> Tensor:
    return k + alpha / n * _window_sum(x.square(), n // 2, (n - 1) // 2)


def _window_sum(x: Tensor, before: int, after: int) -> Tensor:
    """Sum over each channel, ``before`` channels in front of it and ``after`` behind (axis 1)."""
    if not x.shape[1]:
        return torch.zeros_like(x)
    windows = pad(x.movedim(1, -1), (before, after)).unfold(-1, before + 1 + after, 1)
    return windows.sum(-1).movedim(-1, 1)
