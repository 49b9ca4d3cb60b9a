"""Repair: one word decides for all

1. The owner's weights arrive as grad_output, one number for each row. How many of these numbers
   does backward use?
2. Row i of x influences only y[i], so its gradient is a multiple of grad_output[i]. x has one more
   dimension than grad_output. Which one?
3. Let g = grad_output.unsqueeze(-1). The gradient of x is (x - target) * g, and the gradient of the
   target is its negative.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.simpler_inputs import raises_except_for
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def distance(x: Tensor, target: Tensor) -> Tensor:
    """Return half the squared distance of each row to its target."""
    return (x - target).square().sum(-1) / 2


needs_a_matrix = raises_except_for(
    lambda x, target: (x.flatten(0, -2), target.flatten(0, -2)) if x.ndim > 2 else None,
    "There are two leading dims.",
    "`backward` works for a matrix. Here x has two leading dims, and so does grad_output. Add the "
    "missing dim at the end, and leave the leading dims as they are.",
)


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
        "two leading dims": lambda rng: (normal(rng, 2, 3, 4), normal(rng, 2, 3, 4)),
        "a single vector": lambda rng: (normal(rng, 4), normal(rng, 4)),
    },
    causes=(needs_a_matrix,),
    checks=CONDUCT,
    modeled_on="Liger-Kernel #968: the gradient of every token was multiplied by the upstream "
    "gradient of the first",
)
