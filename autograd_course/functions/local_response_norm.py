"""Local response normalization: each channel is normalized over its neighboring channels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import pad


class LocalResponseNorm(Function):
    """Divide each channel by a power of the mean square of its neighboring channels.

    Forward: ``y_c = x_c · s_c^-β`` with ``s_c = k + (α/n) Σ_{j ∈ W(c)} x_j²`` and the window
    ``W(c) = {c - ⌊n/2⌋ … c + ⌊(n-1)/2⌋}``. Backward, with ``g = ∂L/∂y``:

    ``∂L/∂x_j = s_j^-β · g_j - (2αβ/n) · x_j · Σ_{c: j ∈ W(c)} g_c · y_c / s_c``.

    The sum in backward covers all channels whose window contains ``j``. For an even ``n``, these
    channels form the mirror image of forward's window. Windows are truncated at the first and the
    last channel. The Function saves only ``x`` and recomputes ``s``, so you can differentiate the
    result any number of times.

    Args:
        x: ``(N, C, …)``, real floating-point dtype.
        n: The size of the window.
        alpha: ``α``.
        beta: ``β``.
        k: ``k``.

    Returns:
        The normalized tensor, with the same shape and dtype as ``x``.

    Raises:
        ValueError: ``x`` has no channels, or ``n`` is below 1.

    Example:
        >>> import torch
        >>> LocalResponseNorm.apply(torch.ones(1, 3, 1), 3, 3.0).flatten()
        tensor([0.4387, 0.3536, 0.4387])

    Sources: Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep convolutional
    neural networks", 2012, section 3.3. For an even ``n``, the window is the same as in
    :func:`torch.nn.functional.local_response_norm`.
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
        """Return ``x · s^-β`` and save ``x``."""
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
        """Return the gradient of ``x``. The settings have no gradient."""
        (x,) = ctx.saved_tensors
        n, alpha, beta, k = ctx.settings
        scale = _scale(x, n, alpha, k)
        damping = scale**-beta
        # Sum over the channels whose window contains this channel. They form the mirrored window.
        ratio = grad_output * x * damping / scale
        shared = _window_sum(ratio, (n - 1) // 2, n // 2)
        return damping * grad_output - 2 * alpha * beta / n * x * shared, None, None, None, None


def _scale(x: Tensor, n: int, alpha: float, k: float) -> Tensor:
    return k + alpha / n * _window_sum(x.square(), n // 2, (n - 1) // 2)


def _window_sum(x: Tensor, before: int, after: int) -> Tensor:
    """Add to each channel (dim 1) the ``before`` preceding and the ``after`` following channels."""
    if not x.shape[1]:
        return torch.zeros_like(x)
    windows = pad(x.movedim(1, -1), (before, after)).unfold(-1, before + 1 + after, 1)
    return windows.sum(-1).movedim(-1, 1)
