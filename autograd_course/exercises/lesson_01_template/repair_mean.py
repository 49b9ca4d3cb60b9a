"""Repair: mean

1. Move one of four numbers by 1. By how much does their mean move? And by how much does this
   backward say?
2. The gradient is spread to the right places, but it is that of the sum. Which factor turns a sum
   into a mean? A constant factor stays when you differentiate.
3. Divide by the length of the last axis, which forward has left in ctx.shape[-1].
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def mean(x: Tensor) -> Tensor:
    """Return the mean over the last axis."""
    return x.mean(-1)


EXERCISE = FunctionExercise(
    answer="Mean",
    points=1,
    difficulty="easy",
    minutes=4,
    section="What backward is asked for",
    section_is_on_backward=True,
    reference=mean,
    samplers={
        "a 2×5 matrix": lambda rng: (normal(rng, 2, 5),),
        "a vector": lambda rng: (normal(rng, 5),),
        "three axes": lambda rng: (normal(rng, 2, 3, 6),),
        "a last axis of length 1": lambda rng: (normal(rng, 3, 1),),
    },
    checks=CONDUCT,
)
