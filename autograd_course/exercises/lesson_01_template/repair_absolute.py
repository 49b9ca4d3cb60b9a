"""Repair: absolute value

1. Sketch |x|. This backward is right for one sign of x. What is the slope for the other sign?
2. This mask belongs to a ReLU: it stops the gradient for negative x. The absolute value does not
   stop the gradient there but changes its sign.
3. The local derivative is the sign of x, which torch.sign computes. Multiply it by grad_output.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT, slope_within
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import around, positive


def absolute(x: Tensor) -> Tensor:
    """Return ``|x|``."""
    return x.abs()


EXERCISE = FunctionExercise(
    answer="Absolute",
    points=1,
    difficulty="easy",
    minutes=4,
    optional=True,
    section="From the formula to the proof",
    reference=absolute,
    samplers={
        "numbers of both signs": lambda rng: (around(rng, (0.0,), 2, 3),),
        "negative numbers only": lambda rng: (-positive(rng, 4),),
        "three dimensions, one of length 1": lambda rng: (around(rng, (0.0,), 2, 1, 3),),
        "a single number (0-dim)": lambda rng: (positive(rng),),
    },
    checks=(*CONDUCT, slope_within(-1.0, 1.0, at=0.0)),
)
