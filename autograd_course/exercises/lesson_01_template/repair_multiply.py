"""Repair: multiply

1. Try x = 2 and y = 10. If x grows a little, how fast does the product grow? Compare this with the
   first value that backward returns.
2. The first gradient belongs to forward's first argument. The derivative of x·y with respect to x
   is the *other* factor.
3. Return y · grad_output first, x · grad_output second.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, shaped, with_zeros


def multiply(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x · y``."""
    return x * y


EXERCISE = FunctionExercise(
    answer="Multiply",
    points=1,
    difficulty="easy",
    minutes=4,
    optional=True,
    section="Several inputs, several outputs",
    reference=multiply,
    samplers={
        **shaped(normal, count=2),
        "zeros among the numbers": lambda rng: (*with_zeros(rng), *with_zeros(rng)),
    },
    checks=CONDUCT,
)
