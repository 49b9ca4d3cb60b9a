"""Masks of one bit an element: eight in a byte."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

BITS = 8
# A word is eight bytes of a mask, each 0 or 1. The product moves the bit of byte k to bit 56 + k of
# the word, and no two of its terms meet.
_GATHER = sum(1 << (56 - 7 * k) for k in range(BITS))
_REPEAT = sum(1 << (8 * k) for k in range(BITS))  # one byte, eight times
_EACH = sum(1 << (9 * k) for k in range(BITS)) - (1 << 64)  # bit k of byte k, as a signed number


def pack_bits(mask: Tensor) -> Tensor:
    """Return a boolean mask as bytes: ``⌈n / 8⌉`` of them for ``n`` elements.

    Element ``8i + k``, in row-major order, is bit ``k`` of byte ``i``; bits beyond the last element
    are 0. ``torch.bool`` spends a byte on each element. Any shape; the result is a ``uint8`` vector
    on the mask's device. Nothing larger than the mask is made on the way.

    Raises ``TypeError`` if the mask is not boolean. Source: Warren, Hacker's Delight (the product).
    """
    if mask.dtype != torch.bool:
        raise TypeError(f"pack_bits packs a boolean mask, not {mask.dtype}")
    padded = mask.new_zeros(BITS * math.ceil(mask.numel() / BITS))
    padded[: mask.numel()].view(mask.shape).copy_(mask)
    words = padded.view(torch.int64).mul_(_GATHER)
    return words.bitwise_right_shift_(56).bitwise_and_(255).to(torch.uint8)


def unpack_bits(packed: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the boolean mask of a shape that :func:`pack_bits` has packed.

    Raises ``ValueError`` if a mask of that shape has another number of bytes.
    """
    number = math.prod(shape)
    if packed.numel() != math.ceil(number / BITS):
        raise ValueError(
            f"a mask of shape {tuple(shape)} has {math.ceil(number / BITS)} bytes, "
            f"not {packed.numel()}"
        )
    words = packed.to(torch.int64).mul_(_REPEAT).bitwise_and_(_EACH)
    return words.view(torch.uint8)[:number].ne(0).view(shape)


class PackedReLU(torch.autograd.Function):
    """A ReLU that keeps a bit for each element.

    Forward: ``y = max(x, 0)``. Backward: ``∂L/∂x = ∂L/∂y`` where ``x > 0``, else 0: at the kink the
    gradient is 0, as in ``torch.relu``.

    Worth it where nothing else keeps ``x`` or ``y``. ``torch.relu`` keeps its output, which costs
    nothing if the next operation keeps its input. Shapes: ``x`` and ``y`` alike, any shape. Real
    floating dtypes; the gradient has the dtype of ``x``. Saves ``⌈n / 8⌉`` bytes. Twice
    differentiable (the second derivative is 0).
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``max(x, 0)``, saving the signs."""
        ctx.save_for_backward(pack_bits(x > 0))
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return ``grad_output`` where the input was positive, 0 elsewhere."""
        (packed,) = ctx.saved_tensors
        return torch.where(unpack_bits(packed, grad_output.shape), grad_output, 0)


class PackedDropout(torch.autograd.Function):
    """Dropout that keeps a bit for each element.

    Forward: ``y = m ∘ x / (1 - p)``, where an element of ``m`` is 0 with probability ``p``, else 1.
    Backward: ``∂L/∂x = m ∘ ∂L/∂y / (1 - p)``, with the same ``m``.

    ``p`` is a Python number in ``[0, 1]``; with ``p = 1`` all is 0. The mask is drawn from the
    random state of the device of ``x``, not as ``torch.dropout`` draws it. Shapes: ``x`` and ``y``
    alike, any shape. Real floating dtypes. Saves ``⌈n / 8⌉`` bytes. Twice differentiable.

    Raises ``ValueError`` for a ``p`` outside of ``[0, 1]``. Source: Srivastava et al. 2014.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float = 0.5) -> Tensor:
        """Return ``x`` with some elements dropped and the others scaled up, saving which."""
        if not 0 <= p <= 1:
            raise ValueError(f"PackedDropout needs a probability, got p = {p}")
        mask = torch.rand(x.shape, device=x.device) >= p
        ctx.scale = 0.0 if p == 1 else 1 / (1 - p)
        ctx.save_for_backward(pack_bits(mask))
        return _dropped(mask, x, ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """Return ``grad_output`` with the same elements dropped and the others scaled up."""
        (packed,) = ctx.saved_tensors
        return _dropped(unpack_bits(packed, grad_output.shape), grad_output, ctx.scale), None


def _dropped(mask: Tensor, x: Tensor, scale: float) -> Tensor:
    return torch.where(mask, x * scale, 0)
