"""Repair: power

1. Count the arguments of forward after ctx. Then count what backward returns.
2. PyTorch assigns the returned gradients to forward's arguments by position. So backward must
   return one value for each argument, even if the argument is not a tensor.
3. The formula is right. Return it together with None for the exponent.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import around, positive, with_zeros


def power(x: Tensor, exponent: float) -> Tensor:
    """Raise ``x`` to the power ``exponent``, which is a Python number."""
    return x**exponent


EXERCISE = FunctionExercise(
    answer="Power",
    points=1,
    difficulty="easy",
    minutes=4,
    optional=True,
    section="What backward returns",
    section_is_on_backward=True,
    reference=power,
    samplers={
        "exponent 3": lambda rng: (around(rng, (0.0,), 2, 3), 3),
        "exponent 3, zeros among the numbers": lambda rng: (*with_zeros(rng), 3),
        "exponent 0.5": lambda rng: (positive(rng, 5), 0.5),
        "exponent -2": lambda rng: (around(rng, (0.0,), 2, 1, 3), -2.0),
        "a single number (0-dim)": lambda rng: (positive(rng), 1.5),
    },
    checks=CONDUCT,
)
