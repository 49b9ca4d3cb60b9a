"""Repair: the penalty that misleads

1. The training is right and the penalty is not: the penalty differentiates backward. Which of the
   numbers that backward reads are functions of x, and does autograd know?
2. x is an input and has a graph. r was computed in forward, where nothing is recorded; saved, it is
   a constant. backward can compute it from x, where it is recorded.
3. Save x alone. backward begins with r = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt(),
   without detach or no_grad; the rest stays.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def rms_norm(x: Tensor) -> Tensor:
    """Return ``x / √(mean(x²) + 1e-6)`` along the last axis."""
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


EXERCISE = FunctionExercise(
    answer="RMSNorm",
    points=2,
    difficulty="medium",
    minutes=10,
    section="Before it ships",
    reference=rms_norm,
    samplers={
        "3 rows of 4": lambda rng: (normal(rng, 3, 4),),
        "a vector": lambda rng: (normal(rng, 5),),
        "three axes, one of length 1": lambda rng: (normal(rng, 2, 1, 3),),
    },
    double_backward=True,
    checks=CONDUCT,
    modeled_on="PyTorch #58509: intermediate results of a Function are dangerous for double "
    "backward",
)
