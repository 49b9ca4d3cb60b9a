"""Repair: scale and shift on a frozen backbone

1. Print what backward returns if x is frozen, and compare it with the arguments of forward. How
   does autograd know which value belongs to which argument?
2. Autograd goes by the position. This list only contains the gradients that are needed, so every
   gradient after a missing one is at the wrong position.
3. Start with grad_x = grad_gamma = grad_beta = None, compute those that needs_input_grad asks for,
   and return all three in the order of the arguments.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def film(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """Return ``γ x + β``, with a scale and a shift for each column."""
    return x * gamma + beta


EXERCISE = FunctionExercise(
    answer="FiLM",
    points=1,
    difficulty="easy",
    minutes=9,
    section="What gradcheck does not ask",
    constraints="the gradients are also right if any of the three tensors is frozen",
    reference=film,
    samplers={
        "4 rows of 3": lambda rng: (normal(rng, 4, 3), normal(rng, 3), normal(rng, 3)),
        "one row": lambda rng: (normal(rng, 1, 5), normal(rng, 5), normal(rng, 5)),
        "rows of one number": lambda rng: (normal(rng, 6, 1), normal(rng, 1), normal(rng, 1)),
    },
    checks=CONDUCT,
    modeled_on="Liger-Kernel #930: a fused loss that was right only if all of its inputs "
    "required a gradient",
)
