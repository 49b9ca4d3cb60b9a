"""Repair: shares along another axis

1. Along the last axis all is well. Read backward with dim=0 in mind: in which lines does it matter,
   and which of them know?
2. All that reduces, in forward and in backward, reduces along the same axis. A Jacobian view of a
   2×3 example with dim=0 shows which outputs the backward couples.
3. Sum (grad_output * x / total) along ctx.dim, with keepdim=True.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import positive


def share(x: Tensor, dim: int) -> Tensor:
    """Return ``x / Σx``, the sum along ``dim``."""
    return x / x.sum(dim, keepdim=True)


EXERCISE = FunctionExercise(
    answer="Share",
    points=1,
    difficulty="easy",
    minutes=5,
    section="Reading a Jacobian",
    reference=share,
    samplers={
        "a 3×4 matrix along its last axis": lambda rng: (positive(rng, 3, 4), -1),
        "the same along its first": lambda rng: (positive(rng, 3, 4), 0),
        "three axes, along the middle one": lambda rng: (positive(rng, 2, 3, 4), 1),
        "a vector": lambda rng: (positive(rng, 5), 0),
        "an axis of length 1": lambda rng: (positive(rng, 1, 4), -2),
    },
    checks=CONDUCT,
    modeled_on="sparsemax-pytorch #1 and entmax #13: right for a matrix along its last axis, "
    "and for little else",
)
