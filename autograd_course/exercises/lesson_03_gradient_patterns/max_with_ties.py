"""Maximum with ties

1. Which elements of a slice does the maximum depend on? All others get 0. And how many are there
   if the largest number occurs several times?
2. Compare x with the maximum, with its dim kept. This gives a mask of all winners. If c of them
   tie, each gets 1/c of the gradient of the slice. Bring grad_output to the same shape.
3. Save x and y. In backward, unsqueeze(dim) restores the dim of y and g unless it was kept. winners
   = x == y. Return g · winners / winners.sum(dim, keepdim=True), and None twice.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, ties_as
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def amax(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return the maximum along a dim. Equal maxima share the gradient equally."""
    return torch.amax(x, dim, keepdim)


SPREAD = 0.3  # much larger than any step of a numerical derivative, so that ties stay ties


def tied(rng: torch.Generator, *shape: int) -> Tensor:
    """Return ``SPREAD`` times random integers from 0 to 3, so that long slices contain ties."""
    levels = torch.randint(4, shape, generator=rng, device="cpu")
    return SPREAD * levels.to(torch.float64)


EXERCISE = FunctionExercise(
    answer="MaxWithTies",
    points=2,
    difficulty="medium",
    minutes=15,
    section="Max, and what ties do",
    constraints="equal maxima share the gradient equally",
    reference=amax,
    samplers={
        "a 3×5 matrix along the last dim": lambda rng: (normal(rng, 3, 5), -1),
        "ties, along the last dim": lambda rng: (tied(rng, 4, 6), -1),
        "ties, along dim 0, kept": lambda rng: (tied(rng, 6, 3), 0, True),
        "three dims, along one of length 1": lambda rng: (normal(rng, 2, 1, 3), 1),
        "a slice of equal numbers": lambda rng: (torch.full_like(normal(rng, 4), 0.7), 0),
    },
    checks=(
        *CONDUCT,
        ties_as(amax, torch.tensor([3.0, 1.0, 3.0, 3.0, 2.0], dtype=torch.float64), 0),
        ties_as(
            amax,
            torch.tensor([3.0, 2.99999999, 1.0], dtype=torch.float64),
            0,
            beside="Elements that are only close to each other do not tie.",
        ),
    ),
)
