"""Repair: cube

1. Give the broken Function the loss 5·y instead of y. Every gradient should become five times as
   large. Does it? How could backward know about the 5?
2. backward returns only the local derivative. It learns about the rest of the graph only through
   its second argument.
3. Keep 3·x² and multiply it by grad_output.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, shaped, with_zeros
from autograd_course.grader.suspecting import returning


def cube(x: Tensor) -> Tensor:
    """Return ``x³``."""
    return x**3


EXERCISE = FunctionExercise(
    answer="Cube",
    points=1,
    difficulty="easy",
    minutes=5,
    optional=True,
    section="What backward is asked for",
    section_is_on_backward=True,
    reference=cube,
    samplers={**shaped(normal), "zeros among the numbers": with_zeros},
    gradient_suspects={
        "This is x³ itself. backward needs its derivative.": returning(cube, lambda x, g: g * x**3),
    },
    checks=CONDUCT,
)
