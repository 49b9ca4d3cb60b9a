"""Repair: right until transposed

1. The two gradients contain the same numbers, stored in a different order. Which line depends on
   the order in which they are stored?
2. as_strided((n, 2), (2, 1)) assumes that the numbers are stored row by row. After a transpose they
   are not, and after a sum there is only one number in memory. Either ask for this layout, or use
   an operation that works with every layout.
3. grad_output @ turn(grad_output, -ctx.angle) works with every layout. If you keep as_strided, call
   grad_output.contiguous() first. clone() is not enough, because it keeps the strides.
"""

import math

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def rotate(x: Tensor, angle: float) -> Tensor:
    """Rotate points in the plane counterclockwise. The last dim contains the coordinates."""
    c, s = math.cos(angle), math.sin(angle)
    a, b = x.unbind(-1)
    return torch.stack([c * a - s * b, s * a + c * b], -1)


EXERCISE = FunctionExercise(
    answer="Rotate",
    points=1,
    difficulty="easy",
    minutes=3,
    section="What gradcheck does not ask",
    reference=rotate,
    samplers={
        "4×3 points": lambda rng: (normal(rng, 4, 3, 2), 0.7),
        "a row of points": lambda rng: (normal(rng, 5, 2), -2.0),
        "one point in a batch": lambda rng: (normal(rng, 1, 2), 0.3),
        "a single point": lambda rng: (normal(rng, 2), 1.2),
    },
    checks=CONDUCT,
    modeled_on="flash-attention #355: wrong gradients whenever the gradient of the output "
    "was not contiguous",
)
