"""Lesson 08's patients whose gradients have wrong values: on an axis, at an index, far out."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from autograd_course.grader.exercise import FunctionExercise, Sampler
from autograd_course.grader.exercises.lesson_08_repair import repair
from autograd_course.grader.sampling import normal, positive


def share(x: Tensor, dim: int) -> Tensor:
    """Return ``x / Σx``, the sum along ``dim``."""
    return x / x.sum(dim, keepdim=True)


def look_up(table: Tensor, index: Tensor, fraction: Tensor) -> Tensor:
    """Return ``(1 - f) · table[i] + f · table[i + 1]``."""
    return (1 - fraction) * table[index] + fraction * table[index + 1]


def overwriting(table: Tensor, index: Tensor, fraction: Tensor) -> Tensor:
    """Return the same, with a gradient of the table in which later entries replace earlier ones."""
    left = torch.zeros_like(table, dtype=torch.long)
    places = torch.arange(index.numel()).reshape(index.shape)
    left[index] = places
    right = torch.zeros_like(left)
    right[index + 1] = places
    low = torch.where(left[index] == places, table[index], table[index].detach())
    high = torch.where(right[index + 1] == places, table[index + 1], table[index + 1].detach())
    return (1 - fraction) * low + fraction * high


def log_cosh(x: Tensor) -> Tensor:
    """Return ``log(cosh(x))``, also where ``cosh(x)`` overflows."""
    return x.abs() + torch.nn.functional.softplus(-2 * x.abs()) - math.log(2)


def positions(rng: torch.Generator, size: int, *shape: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a table and places in it, some of them more than once."""
    index = torch.randint(size - 1, shape, generator=rng, device="cpu")
    if index.numel() > 1:
        index.view(-1)[-1] = index.view(-1)[0]
    return normal(rng, size), index, positive(rng, *shape) / 2


def signed(rng: torch.Generator, magnitude: float, *shape: int) -> Tensor:
    """Return numbers of both signs, the largest of about this magnitude."""
    return magnitude * (positive(rng, *shape) - 1.25)


PLACES: Mapping[str, Sampler] = {
    "5 pixels, a table of 9": lambda rng: positions(rng, 9, 5),
    "a 2×3 image": lambda rng: positions(rng, 12, 2, 3),
    "one pixel": lambda rng: positions(rng, 4, 1),
    "more pixels than the table is long": lambda rng: positions(rng, 4, 8),
}

SHARES: Mapping[str, Sampler] = {
    "a 3×4 matrix along its last axis": lambda rng: (positive(rng, 3, 4), -1),
    "the same along its first": lambda rng: (positive(rng, 3, 4), 0),
    "three axes, along the middle one": lambda rng: (positive(rng, 2, 3, 4), 1),
    "a vector": lambda rng: (positive(rng, 5), 0),
    "an axis of length 1": lambda rng: (positive(rng, 1, 4), -2),
}

REPAIRS: tuple[FunctionExercise, ...] = (
    repair(
        id="repair-share",
        title="Repair: shares along another axis",
        reference=share,
        samplers=SHARES,
        hints=(
            "Along the last axis all is well. Read backward with dim=0 in mind: in which lines "
            "does it matter, and which of them know?",
            "All that reduces, in forward and in backward, reduces along the same axis. A "
            "Jacobian view of a 2×3 example with dim=0 shows which outputs the backward couples.",
            "Sum (grad_output * x / total) along ctx.dim, with keepdim=True.",
        ),
        read='lesson 08, "Reading a Jacobian"',
        modeled_on="sparsemax-pytorch #1 and entmax #13: right for a matrix along its last axis, "
        "and for little else",
    ),
    repair(
        id="repair-color-table",
        title="Repair: one pixel teaches",
        points=2,
        reference=look_up,
        samplers=PLACES,
        gradient_suspects={
            "Several pixels read the same entry of the table, so several gradients belong there. "
            "What does table[index] = values do with an index that is there twice, and what does "
            "table[index] += values do with it?": overwriting,
        },
        bounds="the gradient of the table has its dtype, and every pixel contributes",
        hints=(
            "The doctor names one bug and the owner complains of another. Repair the one that is "
            "named, then run diagnose again.",
            "New tensors in backward take dtype and device from an old one: zeros_like. For the "
            "second bug: of several values for the same index, assignment keeps one. += on an "
            "index is read, add, assign, so it is no better. There are operations that add up.",
            "grad_table.index_put_((index,), (1 - fraction) * grad_output, accumulate=True), and "
            "the same for index + 1. (index_add_ does it too, for an index of one axis.)",
        ),
        read='lesson 08, "Step 4: one element by hand"',
        modeled_on="PyTorch #1631, the gradient of gather as it was in 2017",
    ),
    repair(
        id="repair-log-cosh",
        title="Repair: nan since the outlier",
        reference=log_cosh,
        samplers={
            "a 3×4 matrix": lambda rng: (normal(rng, 3, 4),),
            "outliers of up to 1000": lambda rng: (signed(rng, 1333.0, 6),),
            "outliers of up to 50": lambda rng: (signed(rng, 66.0, 2, 1, 3),),
            "a single number (0-dim)": lambda rng: (normal(rng),),
        },
        bounds="finite and right for numbers of any size, of both signs",
        hints=(
            "Take x = 1000 and evaluate backward's formula by hand, one operation at a time. "
            "Which is the first number that is not finite?",
            "exp(1000) is inf, and inf/inf is nan. The quotient itself is harmless: it goes to 1. "
            "So the same function has to be computed on another way, for both signs of x.",
            "(eˣ - e⁻ˣ) / (eˣ + e⁻ˣ) is tanh(x), which PyTorch computes without overflow.",
        ),
        read='lesson 08, "Where a nan comes from"',
        modeled_on="snntorch #427: a surrogate's exponential overflowed, and inf/inf went into "
        "the weights",
    ),
)
