"""Repair: mean

1. Move one of four numbers by 1. By how much does their mean move? What does this backward say
   instead?
2. This backward is the gradient of the sum. Which factor turns a sum into a mean? Differentiation
   keeps constant factors.
3. Divide by the length of the last dimension, ctx.shape[-1].
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def mean(x: Tensor) -> Tensor:
    """Return the mean over the last dimension."""
    return x.mean(-1)


EXERCISE = FunctionExercise(
    answer="Mean",
    points=1,
    difficulty="easy",
    minutes=4,
    optional=True,
    section="What backward is asked for",
    section_is_on_backward=True,
    reference=mean,
    samplers={
        "a 2×5 matrix": lambda rng: (normal(rng, 2, 5),),
        "a vector": lambda rng: (normal(rng, 5),),
        "three dimensions": lambda rng: (normal(rng, 2, 3, 6),),
        "a last dimension of length 1": lambda rng: (normal(rng, 3, 1),),
    },
    checks=CONDUCT,
)
