"""Repair: right until transposed

1. The same numbers in another order in memory: who decides how grad_output lies there? Look for the
   line that reads memory in place of elements.
2. as_strided((n, 2), (2, 1)) believes that the numbers lie row by row. After a transpose they do
   not, and after a sum they do not lie there at all. Ask for the order that you need, or do without
   it.
3. grad_output @ turn(grad_output, -ctx.angle) works on any layout. A kernel that needs rows gets
   grad_output.contiguous(); clone() is no substitute, it keeps the order.
"""

import math

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def rotate(x: Tensor, angle: float) -> Tensor:
    """Return the points of the plane in the last axis, rotated counterclockwise."""
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
