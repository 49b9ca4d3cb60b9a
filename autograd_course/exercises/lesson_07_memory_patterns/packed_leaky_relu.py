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
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, keeps_at_most, no_copy_on_ctx
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import around


def leaky_relu(x: Tensor, slope: float) -> Tensor:
    """Return ``x`` where ``x > 0``, and ``slope · x`` elsewhere."""
    return torch.where(x > 0, x, slope * x)


def both_signs(rng: torch.Generator, *shape: int) -> Tensor:
    """Return numbers of both signs in random order, so every mistake changes the mask.

    If the signs alternated, reversing the bits of a byte would be the same as negating the mask.
    """
    flat = around(rng, (0.0,), torch.Size(shape).numel())
    return flat[torch.randperm(flat.numel(), generator=rng, device="cpu")].reshape(shape)


def leaky_by(mistaken: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return a leaky ReLU in which ``mistaken`` changes the mask, viewed as rows of eight bits."""

    def leaky(x: Tensor, slope: float) -> Tensor:
        flat = (x > 0).reshape(-1)
        rows = torch.cat([flat, flat.new_zeros(-flat.numel() % 8)]).reshape(-1, 8)
        mask = mistaken(rows).reshape(-1)[: flat.numel()].reshape(x.shape)
        return torch.where(mask, x, slope * x)

    return leaky


PACKED_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "The two sides are exchanged. What does a set bit mean in forward, and what does it mean in "
    "backward?": leaky_by(lambda rows: ~rows),
    "The bits of each byte come back in reverse order. Do packing and unpacking both use the "
    "powers 1, 2, 4, … in this order?": leaky_by(lambda rows: rows.flip(1)),
    "Eight neighbors share a byte, so each row of the unpacked matrix must belong to one byte: "
    "packed[:, None] & bits. With packed[None, :] each column does.": leaky_by(
        lambda rows: rows.t()
    ),
}

EXERCISE = FunctionExercise(
    answer="PackedLeakyReLU",
    points=3,
    difficulty="medium",
    minutes=15,
    section="Save something smaller",
    constraints="one bit for each element is saved",
    reference=leaky_relu,
    samplers={
        "24 elements": lambda rng: (both_signs(rng, 4, 6), 0.1),
        "a number not divisible by 8": lambda rng: (both_signs(rng, 13), 0.3),
        "three dimensions, one of length 1": lambda rng: (both_signs(rng, 3, 1, 7), 0.01),
        "a negative slope": lambda rng: (both_signs(rng, 2, 5), -0.5),
        "a single number (0-dim)": lambda rng: (-around(rng, (0.0,)).abs(), 0.2),
    },
    gradient_suspects=PACKED_GRADIENTS,
    asked=("input-layout",),
    checks=(
        *CONDUCT,
        no_copy_on_ctx,
        keeps_at_most(
            lambda x, slope: -(-x.numel() // 8),
            "one bit for each element, rounded up to whole bytes",
        ),
    ),
)
