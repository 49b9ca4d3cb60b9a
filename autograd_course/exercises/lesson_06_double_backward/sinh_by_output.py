"""Hyperbolic sine from its output

1. The derivative of sinh is cosh. Which identity connects the two, as sin² + cos² = 1 connects sine
   and cosine?
2. cosh² - sinh² = 1, and cosh is never negative. So you can express cosh(x) in terms of the output
   y alone, and the output has a graph.
3. cosh(x) = √(1 + y²). In setup_context, save the output. In backward, multiply grad_output by (1 +
   y**2).sqrt().
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT, saves_only_outputs
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, shaped


def sinh(x: Tensor) -> Tensor:
    """Return ``sinh x``."""
    return x.sinh()


EXERCISE = FunctionExercise(
    answer="Sinh",
    points=2,
    difficulty="easy",
    minutes=8,
    section="Recompute",
    constraints="nothing but the output is saved for backward",
    reference=sinh,
    samplers=shaped(normal),
    double_backward=True,
    checks=(*CONDUCT, saves_only_outputs),
)
