"""Repair: the word that mutes the sentence

1. The owner's weights are the grad_output of this Function, one number a row. How many of them does
   backward use?
2. Row i of x reaches the loss through y[i] alone, so it is multiplied by grad_output[i].
   grad_output has one axis less than x: which one?
3. g = grad_output.unsqueeze(-1), and the gradient of x is (x - target) * g.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def distance(x: Tensor, target: Tensor) -> Tensor:
    """Return half the squared distance of each row to its target."""
    return (x - target).square().sum(-1) / 2


EXERCISE = FunctionExercise(
    answer="Distance",
    points=1,
    difficulty="easy",
    minutes=4,
    section="Step 5: gradcheck",
    reference=distance,
    samplers={
        "5 rows of 3": lambda rng: (normal(rng, 5, 3), normal(rng, 5, 3)),
        "one row": lambda rng: (normal(rng, 1, 4), normal(rng, 1, 4)),
        "two leading axes": lambda rng: (normal(rng, 2, 3, 4), normal(rng, 2, 3, 4)),
        "a single vector": lambda rng: (normal(rng, 4), normal(rng, 4)),
    },
    checks=CONDUCT,
    modeled_on="Liger-Kernel #968: the loss of every token, times the upstream gradient of "
    "the first",
)
