"""The sign function, with a straight-through gradient that is clipped to a window."""

from typing import Any

import torch
from torch import Tensor


class ClippedSTE(torch.autograd.Function):
    """Replace each element by its sign, with a straight-through gradient where ``|x| ≤ bound``.

    Forward: ``y = +1`` where ``x ≥ 0``, and ``-1`` elsewhere. Declared surrogate:
    ``h(x) = min(max(x, -bound), bound)``, so ``∂L/∂x := ∂L/∂y`` where ``|x| ≤ bound``, and 0
    elsewhere.

    At ``±bound``, the gradient also passes through, so a weight that was clamped to ``±bound`` can
    move back inside. (The gradient of ``hardtanh`` is 0 there, and so is the gradient of
    ``torch.clamp`` since PyTorch 2.14.) The Function saves a boolean mask, which takes one byte per
    element. Twice differentiable: the second derivative is 0.

    Args:
        x: Any shape, real floating-point dtype.
        bound: A positive Python number. It has no gradient.

    Returns:
        The signs, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> x = torch.tensor([-3.0, 0.5], requires_grad=True)
        >>> torch.autograd.grad(ClippedSTE.apply(x).sum(), x)[0]
        tensor([0., 1.])

    Source: Hubara et al., "Binarized neural networks", 2016.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, bound: float = 1.0) -> Tensor:
        """Return the sign of each element, and save a mask of the elements inside the window."""
        ctx.save_for_backward(x.abs() <= bound)
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """Return ``grad_output`` inside the window, and 0 outside."""
        (inside,) = ctx.saved_tensors
        return torch.where(inside, grad_output, 0), None
