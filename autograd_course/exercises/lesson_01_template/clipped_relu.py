"""Clipped ReLU

1. Sketch y against x. The curve has three pieces; how steep is each of them? What is left is to say
   which piece the two corner points belong to.
2. The local gradient is a mask: 1 where forward let x through, 0 where it clipped. At x = 0 and x =
   ceiling this exercise asks for 1, so the bounds belong to the middle.
3. Save the mask (x >= 0) & (x <= ceiling) in forward; a boolean tensor may be saved like any other.
   backward returns grad_output times the mask, and None for ceiling.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, gradient_at
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import around


def clipped_relu(x: Tensor, ceiling: float) -> Tensor:
    """Return ``min(max(x, 0), ceiling)``, with gradient 1 at both bounds."""
    # Not clamp alone: at its bounds PyTorch 2.13 has the gradient 1, and 2.14 has 0.
    return torch.where((x < 0) | (x > ceiling), x.detach().clamp(0, ceiling), x)


EXERCISE = FunctionExercise(
    answer="ClippedReLU",
    points=2,
    difficulty="easy",
    minutes=7,
    section="From the formula to the proof",
    constraints="the gradient at exactly 0 and at exactly the ceiling is 1",
    reference=clipped_relu,
    samplers={
        "ceiling 1 and inputs on both sides of both bounds": lambda rng: (
            around(rng, (0.0, 1.0), 2, 4),
            1.0,
        ),
        "ceiling 6": lambda rng: (around(rng, (0.0, 6.0), 5), 6.0),
        "a single number (0-dim)": lambda rng: (around(rng, (0.0, 0.5)), 0.5),
        "three axes, one of length 1": lambda rng: (around(rng, (0.0, 2.5), 2, 1, 3), 2.5),
    },
    checks=(
        *CONDUCT,
        gradient_at(clipped_relu, torch.tensor([0.0, 2.0, 1.0], dtype=torch.float64), 2.0),
    ),
)
