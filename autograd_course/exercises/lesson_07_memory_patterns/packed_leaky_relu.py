"""Leaky ReLU with a packed mask

1. Read eight elements of the mask as the binary digits of one number from 0 to 255. What is each
   digit worth? And what do you do if the length of the mask is not a multiple of eight?
2. Flatten x > 0, pad it with False to a multiple of 8, reshape it to rows of 8, multiply by 1, 2,
   4, … 128 and sum each row. To unpack, test where packed[:, None] & those eight numbers is not
   zero, and cut off the padding.
3. flat = (x > 0).reshape(-1), and torch.cat([flat, flat.new_zeros(-flat.numel() % 8)]) has the
   right length. Sum with dtype=torch.uint8. In backward, take [: ctx.shape.numel()], reshape to
   ctx.shape, and return torch.where(positive, grad_output, slope * grad_output).
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from autograd_doctor import Finding
from autograd_doctor.memory import kept_bytes
from torch import Tensor
from torch.autograd import Function

from autograd_course.execution import differentiable
from autograd_course.grader.checks import CONDUCT, MANY, keeps_at_most, no_copy_on_ctx, on
from autograd_course.grader.checks.calling import found
from autograd_course.grader.exercise import FunctionExercise, forbid
from autograd_course.grader.sampling import around
from autograd_course.grader.suspecting import mistaken


def leaky_relu(x: Tensor, slope: float) -> Tensor:
    """Return ``x`` where ``x > 0``, and ``slope · x`` elsewhere."""
    return torch.where(x > 0, x, slope * x)


def both_signs(rng: torch.Generator, *shape: int) -> Tensor:
    """Return numbers of both signs in random order, so every mistake changes the mask.

    The first and the last element of the first byte are positive, so a lost bit changes the mask.

    If the signs alternated, reversing the bits of a byte would be the same as negating the mask.
    """
    flat = around(rng, (0.0,), torch.Size(shape).numel())
    flat = flat[torch.randperm(flat.numel(), generator=rng, device="cpu")]
    flat[:8:7] = flat[:8:7].abs()
    return flat.reshape(shape)


def leaky_by(mistaken: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return a leaky ReLU in which ``mistaken`` changes the mask, viewed as rows of eight bits."""

    def leaky(x: Tensor, slope: float) -> Tensor:
        flat = (x > 0).reshape(-1)
        rows = torch.cat([flat, flat.new_zeros(-flat.numel() % 8)]).reshape(-1, 8)
        mask = mistaken(rows).reshape(-1)[: flat.numel()].reshape(x.shape)
        return torch.where(mask, x, slope * x)

    return leaky


def _shifted(x: Tensor, slope: float, by: int) -> Tensor:
    """Return a leaky ReLU whose mask is shifted by the padding, to the right if ``by > 0``."""
    flat = (x > 0).reshape(-1)
    padding = flat.new_zeros(-flat.numel() % 8)
    padded = torch.cat([padding, flat] if by > 0 else [flat, padding])
    mask = padded[: flat.numel()] if by > 0 else padded[-flat.numel() :]
    return torch.where(mask.reshape(x.shape), x, slope * x)


def _lost(bit: int) -> Callable[[Tensor], Tensor]:
    """Return a function that sets one of the eight bits of each byte of a mask to 0."""

    def lost(rows: Tensor) -> Tensor:
        rows = rows.clone()
        rows[:, bit] = False
        return rows

    return lost


def _first_only(rows: Tensor) -> Tensor:
    return rows & (torch.arange(8) == 0)


def _added_places(rows: Tensor, *, twice: bool) -> Tensor:
    """Return the mask that results if the eight elements of a byte have the weights 0 to 7."""
    places = torch.arange(8)
    packed = (rows * places).sum(1)
    return (packed[:, None] & (places if twice else 2**places)).ne(0)


PACKED_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "The mask holds the signs of the output. If slope is negative, a negative x has a positive "
    "output. Use the signs of x.": mistaken(
        leaky_relu,
        lambda inputs, g: (torch.where(leaky_relu(*inputs) > 0, g, inputs[1] * g),),
    ),
    "The two sides are exchanged. What does a set bit mean in forward, and what does it mean in "
    "backward?": leaky_by(lambda rows: ~rows),
    "The bits of each byte come back in reverse order. Do packing and unpacking both use the "
    "powers 1, 2, 4, … in this order?": leaky_by(lambda rows: rows.flip(1)),
    "Eight neighbors share a byte, so each row of the unpacked matrix must belong to one byte: "
    "packed[:, None] & bits. With packed[None, :] each column does.": leaky_by(
        lambda rows: rows.t()
    ),
    "Packing and unpacking group the elements in different ways. One puts neighbors into a byte, "
    "and the other puts the elements of a column there.": leaky_by(
        lambda rows: rows.reshape(8, -1).t()
    ),
    "packed & bit is the value of the bit, so it is 0 or 1, 2, 4, … 128. Yours is true only for "
    "the value 1. Compare with 0 instead.": leaky_by(_first_only),
    "The first bit of each byte is lost. Its value is 1. Test whether packed & bit is not 0.": (
        leaky_by(_lost(0))
    ),
    "The last of the eight bits is lost. The powers must be 1, 2, 4, … 128. The next one, 256, "
    "does not fit into a byte.": leaky_by(_lost(7)),
    "The elements of a byte are packed with the weights 0, 1, 2, … 7. Each one needs a binary "
    "digit of its own: 1, 2, 4, … 128.": leaky_by(lambda rows: _added_places(rows, twice=False)),
    "Packing and unpacking both use the numbers 0, 1, 2, … 7. Each element of a byte needs a "
    "binary digit of its own: 1, 2, 4, … 128.": leaky_by(
        lambda rows: _added_places(rows, twice=True)
    ),
    "The padding is in front of the mask, but unpacking takes the first elements. Pad at the "
    "end.": (lambda x, slope: _shifted(x, slope, 1)),
    "The padding is at the end of the mask, but unpacking takes the last elements. Cut off the "
    "end.": lambda x, slope: _shifted(x, slope, -1),
}


def pads_no_whole_byte(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that eight elements take one byte. If they take two bytes, find the reason."""

    def kept(*shape: int) -> int:
        x = torch.linspace(-1, 1, torch.Size(shape).numel(), dtype=torch.float64).reshape(shape)
        return kept_bytes(function, *differentiable((x, 0.5)))

    if kept(8) == 2 and kept(16) == 3 and kept(13) == 2:
        return found(
            "oversaved",
            "If the number of elements is a multiple of 8, one byte too many is saved: 8 elements "
            "take 2 bytes, and 16 take 3.",
            {"elements": 8, "bytes": 2},
            "How much padding do you add for 8 elements? `8 - n % 8` is 8 there, and it should be "
            "0. Which expression gives 0?",
        )
    if kept(1, 8) == 1 and kept(2, 4) == 2:
        return found(
            "oversaved",
            "Each row is padded by itself: 8 elements of shape (2, 4) take 2 bytes, although 8 "
            "elements of shape (1, 8) take 1.",
            {"elements": 8, "bytes": 2},
            "Flatten the mask first, and then pad it once.",
        )
    return None


one_bit_each = forbid(
    keeps_at_most(
        lambda x, slope: -(-x.numel() // 8), "one bit for each element, rounded up to whole bytes"
    ),
    ("packbits", "unpackbits"),
)

EXERCISE = FunctionExercise(
    answer="PackedLeakyReLU",
    points=3,
    difficulty="medium",
    minutes=15,
    section="Save something smaller",
    constraints="one bit for each element is saved",
    reference=leaky_relu,
    samplers={
        # This comes first, because it immediately exposes padding in the wrong place.
        "13 elements, not divisible by 8": lambda rng: (both_signs(rng, 13), 0.3),
        "24 elements": lambda rng: (both_signs(rng, 4, 6), 0.1),
        "three dimensions, one of length 1": lambda rng: (both_signs(rng, 3, 1, 7), 0.01),
        "a negative slope": lambda rng: (both_signs(rng, 2, 5), -0.5),
        "a slope larger than 1": lambda rng: (both_signs(rng, 9), 1.5),
        "a single number (0-dim)": lambda rng: (-around(rng, (0.0,)).abs(), 0.2),
    },
    suspects={
        "max(x, slope · x) takes the wrong branch if slope is larger than 1. Choose the branch by "
        "x > 0.": lambda x, slope: torch.maximum(x, slope * x),
        "The two sides are exchanged. The slope belongs to the elements that are not positive.": (
            lambda x, slope: torch.where(x > 0, slope * x, x)
        ),
        "Where x ≤ 0, the result is 0. It should be slope · x.": lambda x, slope: torch.relu(x),
    },
    gradient_suspects=PACKED_GRADIENTS,
    asked=("input-layout",),
    checks=(
        *CONDUCT,
        no_copy_on_ctx,
        pads_no_whole_byte,
        one_bit_each,
        on(
            lambda rng: (both_signs(rng, *MANY), 0.1),
            one_bit_each,
        ),
    ),
)
