"""Cube, twice

1. Autograd will differentiate your gradient again. So it has to know how each tensor in your
   formula depends on x. For which tensors does it know this: inputs, outputs, intermediates?
2. Saved inputs and outputs have a graph. Every other tensor that forward computed is a constant.
   So backward should compute everything that it needs from the saved x.
3. Save x alone. In backward, return 3 * x**2 * grad_output, without detach, .data or a decorator.
   Autograd records this formula and differentiates it.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, shaped, with_zeros


def cube(x: Tensor) -> Tensor:
    """Return ``x³``."""
    return x**3


EXERCISE = FunctionExercise(
    answer="Cube",
    points=1,
    difficulty="easy",
    minutes=7,
    section="Which saved tensors have a graph",
    reference=cube,
    samplers={**shaped(normal), "zeros among the numbers": with_zeros},
    double_backward=True,
    checks=CONDUCT,
)
