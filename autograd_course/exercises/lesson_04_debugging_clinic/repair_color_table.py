"""Repair: a thousand pixels count as a dozen

1. The gradient of the table has the wrong dtype, but this is not the problem that the owner sees.
   Repair the dtype. Then run diagnose on your class. It will report the other mistake.
2. Take the dtype and the device from an existing tensor, with zeros_like. The second mistake is
   about repeated indices. If an index appears several times, an assignment keeps only one of the
   values. += on an index reads, adds and assigns, so it has the same problem. Which operations add
   up the values of a repeated index?
3. grad_table.index_put_((index,), (1 - fraction) * grad_output, accumulate=True), and the same for
   index + 1. (For a one-dimensional index, index_add_ also works.)
"""

from typing import Any

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, positive
from autograd_course.grader.suspecting import returning


def look_up(table: Tensor, index: Tensor, fraction: Tensor) -> Tensor:
    """Return ``(1 - f) · table[i] + f · table[i + 1]``."""
    return (1 - fraction) * table[index] + fraction * table[index + 1]


def positions(rng: torch.Generator, size: int, *shape: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a table, indices into the table (some of which repeat), and fractions."""
    index = torch.randint(size - 1, shape, generator=rng, device="cpu")
    if index.numel() > 1:
        index.view(-1)[-1] = index.view(-1)[0]
    return normal(rng, size), index, positive(rng, *shape) / 2


def overwriting(table: Tensor, index: Tensor, fraction: Tensor) -> Tensor:
    """Return the correct values, but let repeated indices overwrite the table's gradient."""
    left = torch.zeros_like(table, dtype=torch.long)
    places = torch.arange(index.numel()).reshape(index.shape)
    left[index] = places
    right = torch.zeros_like(left)
    right[index + 1] = places
    low = torch.where(left[index] == places, table[index], table[index].detach())
    high = torch.where(right[index + 1] == places, table[index + 1], table[index + 1].detach())
    return (1 - fraction) * low + fraction * high


def added(low: str, high: str) -> Any:
    """Return a suspect whose table gradient adds the wrong weights, or uses the wrong entries."""

    def backward(
        table: Tensor, index: Tensor, fraction: Tensor, g: Tensor
    ) -> tuple[Tensor, None, Tensor]:
        weights = {"f": fraction, "1 - f": 1 - fraction}
        of_table = torch.zeros_like(table)
        for place, shift in ((low, 0), (high, 1)):
            weight, _, at = place.partition(" at ")
            where = index + (int(at) if at else shift)
            of_table.index_put_((where,), weights[weight] * g, accumulate=True)
        return of_table, None, (table[index + 1] - table[index]) * g

    return returning(look_up, backward)


EXERCISE = FunctionExercise(
    answer="LookUp",
    points=2,
    difficulty="medium",
    minutes=10,
    section="Step 4: one element by hand",
    constraints="the gradient of the table has its dtype, and every pixel contributes",
    reference=look_up,
    samplers={
        "5 pixels, a table of 9": lambda rng: positions(rng, 9, 5),
        "a 2×3 image": lambda rng: positions(rng, 12, 2, 3),
        "one pixel": lambda rng: positions(rng, 4, 1),
        "more pixels than entries": lambda rng: positions(rng, 4, 8),
    },
    gradient_suspects={
        "Several pixels read the same entry of the table, so this entry collects several "
        "gradients. What do table[index] = values and table[index] += values do if an index "
        "appears twice?": overwriting,
        "The two weights are exchanged. Entry i has the weight 1 - f, and entry i + 1 has f.": (
            added("f", "1 - f")
        ),
        "Both weights go to entry i. The weight f belongs to entry i + 1.": (
            added("1 - f", "f at 0")
        ),
        "Both weights go to entry i + 1. The weight 1 - f belongs to entry i.": (
            added("1 - f at 1", "f")
        ),
    },
    checks=CONDUCT,
    modeled_on="PyTorch #1631: the gradient of gather in 2017",
)
