"""Cube, twice

1. Your gradient will be differentiated once more. Which of the tensors that forward has at hand
   will autograd still know as a function of x, when backward reads it from ctx?
2. Inputs and outputs carry a graph, whatever else forward computed is a constant. So everything
   that backward derives from x it should compute itself, from the saved x.
3. Save x alone. In backward return 3 * x**2 * grad_output, with no detach, no .data and no
   decorator: that formula is recorded, and differentiates itself.
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
    section="What carries a graph",
    reference=cube,
    samplers={**shaped(normal), "zeros among the numbers": with_zeros},
    double_backward=True,
    checks=CONDUCT,
)
