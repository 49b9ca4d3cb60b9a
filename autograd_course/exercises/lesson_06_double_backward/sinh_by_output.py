"""Hyperbolic sine from its output

1. The derivative of sinh is cosh. Which identity connects the two, as sin² + cos² = 1 connects sine
   and cosine?
2. cosh² - sinh² = 1, and cosh is never negative. So you can express cosh(x) in terms of the output
   y alone, and the output has a graph.
3. cosh(x) = √(1 + y²). In setup_context, save the output. In backward, multiply grad_output by (1 +
   y**2).sqrt().
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT, MANY, on, saves_only_outputs
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, shaped
from autograd_course.grader.suspecting import returning


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
    gradient_suspects={
        "This is 1 + y. The identity has squares: cosh² = 1 + y².": returning(
            sinh, lambda x, g: g * (1 + x.sinh())
        ),
        "y is not squared under the root. The identity has squares: cosh² = 1 + y².": returning(
            sinh, lambda x, g: g * (1 + x.sinh().abs()).sqrt()
        ),
        "This takes the sinh of y. y is already sinh(x), and the derivative is cosh(x).": returning(
            sinh, lambda x, g: g * x.sinh().sinh()
        ),
        "This is 1 + y², the square of cosh. The root is missing.": returning(
            sinh, lambda x, g: g * (1 + x.sinh() ** 2)
        ),
        "This is 1 + |y|. The root of a sum is not the sum of the roots.": returning(
            sinh, lambda x, g: g * (1 + x.sinh().abs())
        ),
        "This takes the cosh of y. y is already sinh(x), so you need cosh(x).": returning(
            sinh, lambda x, g: g * x.sinh().cosh()
        ),
    },
    checks=(
        *CONDUCT,
        saves_only_outputs,
        on(lambda rng: (normal(rng, *MANY),), saves_only_outputs),
    ),
)
