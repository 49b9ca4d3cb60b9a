"""Repair: the silence that disappears

1. Compare x before and after the call. Once x stays the same, run diagnose on your class, because
   there is a second mistake.
2. x.data shares the memory of x. x.clamp(min=floor), without the underscore, returns a new tensor.
   For the second mistake, plot y against x. What is the slope below the floor? backward must know
   which elements are below it.
3. Save x itself, and store ctx.floor = floor. In backward, return torch.where(x >= ctx.floor,
   grad_output / x, 0).
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import positive


def floor_log(x: Tensor, floor: float) -> Tensor:
    """Return ``log(max(x, floor))``."""
    return x.clamp(min=floor).log()


def with_silence(rng: torch.Generator, floor: float, n: int) -> tuple[Tensor, float]:
    """Return numbers around the floor, with a 0 at every third position, and the floor."""
    x, floor = around_floor(rng, floor, n)
    return x.where(torch.arange(n) % 3 != 0, 0.0), floor


def around_floor(rng: torch.Generator, floor: float, *shape: int) -> tuple[Tensor, float]:
    """Return positive numbers that are alternately below and above the floor, and the floor."""
    ratio = positive(rng, *shape)  # 0.5 to 2
    below = torch.arange(ratio.numel()).reshape(shape) % 2 == 0
    return floor * torch.where(below, 0.3 * ratio, 1 + ratio), floor


def leaky_floor_log(x: Tensor, floor: float) -> Tensor:
    """Return the correct values, with a gradient of ``1 / floor`` below the floor."""
    return (x + (x.clamp(min=floor) - x).detach()).log()


EXERCISE = FunctionExercise(
    answer="FloorLog",
    points=2,
    difficulty="medium",
    minutes=9,
    section="What gradcheck does not ask",
    constraints="x keeps its values, and the gradient is 0 below the floor, including at x = 0",
    reference=floor_log,
    samplers={
        "a 3×4 matrix, floor 0.5": lambda rng: around_floor(rng, 0.5, 3, 4),
        "a vector, floor 1": lambda rng: around_floor(rng, 1.0, 5),
        "three dims, one of length 1": lambda rng: around_floor(rng, 0.1, 2, 1, 3),
        "digital silence: some x are 0": lambda rng: with_silence(rng, 0.2, 6),
    },
    suspects={
        "The floor is added to x. It replaces every x that is below it.": lambda x, floor: (
            x + floor
        ).log(),
        "The floor is used as a ceiling. The numbers below it must be raised.": lambda x, floor: (
            x.clamp(max=floor).log()
        ),
        "The floor is compared with log(x). Compare it with x, before the logarithm.": (
            lambda x, floor: x.log().clamp(min=floor)
        ),
    },
    gradient_suspects={
        "Below the floor, y is log(floor) for every x. How much does y change if x changes? The "
        "clamped number does not tell backward on which side of the floor x was.": (
            leaky_floor_log
        ),
    },
    checks=CONDUCT,
    modeled_on="Liger-Kernel #272: a kernel writes into its input, and PyTorch's version "
    "counter does not notice",
)
