"""Square

1. Which number does the derivative of x² need? backward runs long after forward, so forward must
   save this number.
2. backward receives ∂L/∂y and returns ∂L/∂x. By the chain rule, ∂L/∂x = ∂L/∂y · dy/dx for
   each element. Compute dy/dx from the x that forward saved.
3. In forward: ctx.save_for_backward(x), then return the square. In backward: (x,) =
   ctx.saved_tensors (note the comma), then return twice x times grad_output.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, shaped


def square(x: Tensor) -> Tensor:
    """Return ``x²``."""
    return x * x


EXERCISE = FunctionExercise(
    answer="Square",
    points=1,
    difficulty="easy",
    minutes=7,
    section="What backward is asked for",
    section_is_on_backward=True,
    reference=square,
    samplers=shaped(normal),
    checks=CONDUCT,
)
