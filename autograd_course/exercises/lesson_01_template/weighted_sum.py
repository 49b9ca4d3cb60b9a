"""Weighted sum

1. Three tensors go in, so three gradients come out. Compute them one at a time, and treat the other
   two inputs as constants.
2. Multiply the formula out: w·x + y - w·y. How does it change when only w changes? The variable w
   appears in two of the terms.
3. ∂z/∂x = w, ∂z/∂y = 1 - w, ∂z/∂w = x - y. Save all three inputs, multiply each derivative by
   grad_output, and return them in the order of forward's arguments.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, shaped


def weighted_sum(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    """Return ``w·x + (1 - w)·y``."""
    return w * x + (1 - w) * y


EXERCISE = FunctionExercise(
    answer="WeightedSum",
    points=2,
    difficulty="easy",
    minutes=7,
    section="Several inputs, several outputs",
    reference=weighted_sum,
    samplers=shaped(normal, count=3),
    suspects={
        "x and y are exchanged: w is the weight of x.": lambda x, y, w: w * y + (1 - w) * x,
    },
    checks=CONDUCT,
)
