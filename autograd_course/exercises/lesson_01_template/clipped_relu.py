"""Clipped ReLU

1. Sketch y against x. The curve has three pieces. How steep is each of them? Then decide
   which piece each of the two corner points belongs to.
2. The local gradient is a mask: 1 where forward let x through, 0 where it clipped. The comparisons
   that make the mask decide what happens at the kinks. Make the same choice at both.
3. Save the mask (x > 0) & (x < ceiling), or the one with >= and <=, in forward. You may save a
   boolean tensor like any other. backward returns grad_output times the mask, and None for ceiling.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, same_slope_at
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import around
from autograd_course.grader.suspecting import returning


def clipped_relu(x: Tensor, ceiling: float) -> Tensor:
    """Return ``min(max(x, 0), ceiling)``."""
    return x.clamp(0, ceiling)


def passing(mask: Callable[[Tensor, float], Tensor]) -> Callable[..., Any]:
    """Return a suspect that lets the gradient through where ``mask`` is true."""
    return returning(clipped_relu, lambda x, ceiling, g: g * mask(x, ceiling))


EXERCISE = FunctionExercise(
    answer="ClippedReLU",
    points=2,
    difficulty="easy",
    minutes=7,
    section="From the formula to the proof",
    constraints="the gradient is the same at both kinks, 0 or 1",
    reference=clipped_relu,
    samplers={
        "ceiling 1 and inputs on both sides of both kinks": lambda rng: (
            around(rng, (0.0, 1.0), 2, 4),
            1.0,
        ),
        "ceiling 6": lambda rng: (around(rng, (0.0, 6.0), 5), 6.0),
        "a single number (0-dim)": lambda rng: (around(rng, (0.0, 0.5)), 0.5),
        "three dimensions, one of length 1": lambda rng: (around(rng, (0.0, 2.5), 2, 1, 3), 2.5),
    },
    suspects={
        "The result is not clipped at the ceiling.": lambda x, ceiling: x.clamp(min=0),
        "Negative numbers are not clipped at 0.": lambda x, ceiling: x.clamp(max=ceiling),
    },
    gradient_suspects={
        "The mask is true for every x. It passes only between the kinks, so both comparisons must "
        "hold. (The output is never below 0 or above the ceiling.)": passing(
            lambda x, ceiling: torch.ones_like(x)
        ),
        "The gradient also passes above the ceiling. There forward clips, too, so the mask needs a "
        "second comparison. A clipped output is equal to the ceiling.": passing(
            lambda x, ceiling: x > 0
        ),
        "The gradient also passes below 0. There forward clips, too, so the mask needs a second "
        "comparison. A clipped output is equal to 0.": passing(lambda x, ceiling: x < ceiling),
        "The gradient also passes for x between -ceiling and 0. forward clips at 0, so the mask "
        "must compare x itself, not its absolute value.": passing(
            lambda x, ceiling: x.abs() < ceiling
        ),
        "The mask is inverted. The gradient passes between the kinks, not outside.": passing(
            lambda x, ceiling: (x < 0) | (x > ceiling)
        ),
        "This multiplies by x between the kinks. There the slope of forward is 1.": returning(
            clipped_relu, lambda x, ceiling, g: g * x * ((x > 0) & (x < ceiling))
        ),
        "This clips grad_output. x decides where grad_output passes, not its own size.": returning(
            clipped_relu, lambda x, ceiling, g: g.clamp(0, ceiling)
        ),
    },
    checks=(
        *CONDUCT,
        same_slope_at((0.0, 1.0), torch.tensor([0.0, 2.0], dtype=torch.float64), 2.0),
    ),
)
