"""Exponential, twice

1. The derivative of exp is exp, so backward needs exactly the values that forward returns. Does it
   matter which tensor contains them?
2. It does. The output is part of the graph. A second tensor with the same values is an intermediate
   and therefore a constant.
3. forward returns x.exp(). In setup_context, call ctx.save_for_backward(output), which saves the
   tensor that forward returned. backward returns y * grad_output.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT, MANY, on, saves_only_outputs
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
    section="Recompute",
    constraints="nothing but the output is saved for backward",
    reference=exponential,
    samplers=shaped(normal),
    double_backward=True,
    checks=(
        *CONDUCT,
        saves_only_outputs,
        on(lambda rng: (normal(rng, *MANY),), saves_only_outputs),
    ),
)
