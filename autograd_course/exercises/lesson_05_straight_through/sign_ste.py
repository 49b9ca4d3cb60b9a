"""Sign, straight through

1. backward does not differentiate the sign. Which function does the exercise put in its place, and
   what is the derivative of that function?
2. The surrogate is the identity. Its derivative is 1, so the vector-Jacobian product is grad_output
   times 1. Does backward need anything from forward?
3. In forward: torch.where(x >= 0, 1.0, -1.0), with .to(x) for the dtype of x. In setup_context:
   pass. In backward: return grad_output.
"""

from torch import Tensor

from autograd_course.exercises.lesson_05_straight_through._sign import (
    SIGN_SUSPECTS,
    sign,
    with_zeros,
)
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, shaped


def identity(x: Tensor) -> Tensor:
    """Return ``x``, the surrogate whose derivative replaces the derivative of the sign."""
    return x.clone()


EXERCISE = FunctionExercise(
    answer="SignSTE",
    points=1,
    difficulty="easy",
    minutes=5,
    section="Your first straight-through estimator",
    constraints="the output at exactly 0 is +1, whatever the sign of that zero",
    reference=sign,
    surrogate=identity,
    suspects=SIGN_SUSPECTS,
    samplers={**shaped(normal), "zeros among the numbers": with_zeros},
    checks=CONDUCT,
)
