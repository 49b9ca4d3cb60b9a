"""Masks that take one bit per element."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

BITS = 8
# A word is eight bytes of a mask, each 0 or 1. The product moves the bit of byte k to bit 56 + k of
# the word, and no two of its terms overlap.
_GATHER = sum(1 << (56 - 7 * k) for k in range(BITS))
_REPEAT = sum(1 << (8 * k) for k in range(BITS))  # one byte, eight times
_EACH = sum(1 << (9 * k) for k in range(BITS)) - (1 << 64)  # bit k of byte k, as a signed number


def pack_bits(mask: Tensor) -> Tensor:
    """Pack a boolean mask into bytes.

    Element ``8i + k``, in row-major order, becomes bit ``k`` of byte ``i``. The bits after the last
    element are 0. ``torch.bool`` takes one byte per element, so the result is one eighth of the
    mask's size. No intermediate result is larger than the mask.

    Args:
        mask: Boolean, any shape.

    Returns:
        A ``uint8`` vector of ``⌈n / 8⌉`` bytes on the mask's device.

    Raises:
        TypeError: The mask is not boolean.

    Example:
        >>> import torch
        >>> pack_bits(torch.tensor([True, False, True]))
        tensor([5], dtype=torch.uint8)

    Source: Warren, "Hacker's Delight" (the multiplication that collects eight bits).
    """
    if mask.dtype != torch.bool:
        raise TypeError(f"pack_bits packs a boolean mask, not {mask.dtype}")
    padded = mask.new_zeros(BITS * math.ceil(mask.numel() / BITS))
    padded[: mask.numel()].view(mask.shape).copy_(mask)
    words = padded.view(torch.int64).mul_(_GATHER)
    return words.bitwise_right_shift_(56).bitwise_and_(255).to(torch.uint8)


def unpack_bits(packed: Tensor, shape: Sequence[int]) -> Tensor:
    """Restore a boolean mask that was packed by :func:`pack_bits`.

    Args:
        packed: The bytes.
        shape: The shape of the mask.

    Returns:
        The boolean mask.

    Raises:
        ValueError: ``packed`` has the wrong number of bytes for this shape.

    Example:
        >>> import torch
        >>> unpack_bits(torch.tensor([5], dtype=torch.uint8), (3,))
        tensor([ True, False,  True])
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
    """Compute a ReLU that saves one bit per element.

    Forward: ``y = max(x, 0)``. Backward: ``∂L/∂x = ∂L/∂y`` where ``x > 0``, and 0 elsewhere. At the
    kink, the gradient is 0, as in ``torch.relu``.

    The Function saves ``⌈n / 8⌉`` bytes. This reduces memory only if no other operation saves ``x``
    or ``y``. ``torch.relu`` saves its output, which costs nothing if the next operation also saves
    that tensor. Twice differentiable: the second derivative is 0.

    Args:
        x: Any shape, real floating-point dtype.

    Returns:
        The activation, with the same shape and dtype as ``x``.

    Example:
        >>> import torch
        >>> PackedReLU.apply(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """Return ``max(x, 0)`` and save the signs."""
        ctx.save_for_backward(pack_bits(x > 0))
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        """Return ``grad_output`` where the input was positive, and 0 elsewhere."""
        (packed,) = ctx.saved_tensors
        return torch.where(unpack_bits(packed, grad_output.shape), grad_output, 0)


class PackedDropout(torch.autograd.Function):
    """Compute dropout and save one bit per element.

    Forward: ``y = m ∘ x / (1 - p)``, where an element of ``m`` is 0 with probability ``p``, and 1
    otherwise. Backward: ``∂L/∂x = m ∘ ∂L/∂y / (1 - p)``, with the same ``m``.

    The Function draws the mask from PyTorch's random generator for the device of ``x``. Starting
    from the same generator state, ``torch.dropout`` draws a different mask. The Function saves
    ``⌈n / 8⌉`` bytes. Twice differentiable.

    Args:
        x: Any shape, real floating-point dtype.
        p: A Python number in ``[0, 1]``. If ``p`` is 1, the output is 0.

    Returns:
        The result, with the same shape and dtype as ``x``.

    Raises:
        ValueError: ``p`` is not in ``[0, 1]``.

    Example:
        >>> import torch
        >>> PackedDropout.apply(torch.ones(3), 1.0)
        tensor([0., 0., 0.])

    Source: Srivastava et al., "Dropout", 2014.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float = 0.5) -> Tensor:
        """Set random elements of ``x`` to 0, scale the other elements, and save the mask."""
        if not 0 <= p <= 1:
            raise ValueError(f"PackedDropout needs a probability, got p = {p}")
        mask = torch.rand(x.shape, device=x.device) >= p
        ctx.scale = 0.0 if p == 1 else 1 / (1 - p)
        ctx.save_for_backward(pack_bits(mask))
        return _dropped(mask, x, ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        """Set the same elements of ``grad_output`` to 0 and scale the other elements."""
        (packed,) = ctx.saved_tensors
        return _dropped(unpack_bits(packed, grad_output.shape), grad_output, ctx.scale), None


def _dropped(mask: Tensor, x: Tensor, scale: float) -> Tensor:
    return torch.where(mask, x * scale, 0)
