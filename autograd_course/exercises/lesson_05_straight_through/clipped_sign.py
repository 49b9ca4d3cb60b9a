"""Sign, clipped straight-through

1. Sketch clamp(x, -1, 1). How steep is each of its three pieces? That is what grad_output is
   multiplied by, and it depends on x, not on the output.
2. The local gradient is a mask: 1 where |x| ≤ 1, else 0. Neither grad_output nor x is clipped in
   backward; x only decides where grad_output passes.
3. Save the mask x.abs() <= 1 in forward; return grad_output times the mask.
"""

import torch
from torch import Tensor

from autograd_course.exercises.lesson_05_straight_through._sign import sign, with_zeros
from autograd_course.grader.checks import CONDUCT, gradient_at
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import around, shaped


def clipped(x: Tensor) -> Tensor:
    """Return ``x`` clipped to [-1, 1]; at the bounds its gradient is 1."""
    # Not clamp alone: at its bounds PyTorch 2.13 has the gradient 1, and 2.14 has 0.
    return torch.where(x.abs() > 1, x.detach().clamp(-1, 1), x)


EXERCISE = FunctionExercise(
    answer="ClippedSignSTE",
    points=2,
    difficulty="easy",
    minutes=7,
    section="Where the gradient stops",
    constraints="the gradient still passes at exactly -1 and +1",
    reference=sign,
    surrogate=clipped,
    samplers={
        **shaped(lambda rng, *shape: around(rng, (-1.0, 0.0, 1.0), *shape)),
        "zeros among the numbers": with_zeros,
    },
    checks=(
        *CONDUCT,
        gradient_at(clipped, torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)),
    ),
)
