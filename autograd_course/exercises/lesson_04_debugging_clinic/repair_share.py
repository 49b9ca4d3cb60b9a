"""Repair: shares along another dim

1. For the last dimension, everything is right. Read backward for dim=0: which lines depend on the
   dimension, and which of them use ctx.dim?
2. Every reduction in backward goes along the same dimension as the sum in forward. A Jacobian view
   of a 2×3 example with dim=0 shows which outputs backward couples.
3. Sum (grad_output * x / total) along ctx.dim, with keepdim=True.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import positive


def share(x: Tensor, dim: int) -> Tensor:
    """Return ``x / Σx``, where the sum is along ``dim``."""
    return x / x.sum(dim, keepdim=True)


EXERCISE = FunctionExercise(
    answer="Share",
    points=1,
    difficulty="easy",
    minutes=5,
    section="Reading a Jacobian",
    reference=share,
    samplers={
        "a 3×4 matrix along its last dim": lambda rng: (positive(rng, 3, 4), -1),
        "a 3×4 matrix along its first dim": lambda rng: (positive(rng, 3, 4), 0),
        "three dims, along the middle one": lambda rng: (positive(rng, 2, 3, 4), 1),
        "a vector": lambda rng: (positive(rng, 5), 0),
        "a dim of length 1": lambda rng: (positive(rng, 1, 4), -2),
    },
    checks=CONDUCT,
    modeled_on="sparsemax-pytorch #1 and entmax #13: right for a matrix along its last dim, "
    "and wrong for most other inputs",
)
