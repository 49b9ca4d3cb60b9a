"""Exponential, twice

1. The derivative of exp is exp: the number that backward needs is the very one that forward
   returns. Does it matter which tensor holds it?
2. It does. The output is part of the graph; a second tensor of the same numbers, computed beside
   it, is an intermediate and a constant.
3. y = x.exp(); ctx.save_for_backward(y); return y – one tensor, saved and returned. backward
   returns y * grad_output.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT, saves_only_outputs
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, shaped


def exponential(x: Tensor) -> Tensor:
    """Return ``exp x``."""
    return x.exp()


EXERCISE = FunctionExercise(
    answer="Exp",
    points=1,
    difficulty="easy",
    minutes=8,
    section="Compute it again",
    constraints="nothing but the output is kept for backward",
    reference=exponential,
    samplers=shaped(normal),
    double_backward=True,
    checks=(*CONDUCT, saves_only_outputs),
)
