"""Repair: scale and shift on a frozen backbone

1. Print what backward returns when x is frozen, beside forward's arguments. Who tells the engine
   which of the returned values belongs to which argument?
2. The position does, and nothing else. A list that only grows by what is needed moves everything
   behind a gap one place forward.
3. Start with grad_x = grad_gamma = grad_beta = None, fill in those that needs_input_grad asks for,
   and return all three in the order of the arguments.
"""

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def film(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """Return ``γ x + β``, a scale and a shift for each column."""
    return x * gamma + beta


EXERCISE = FunctionExercise(
    answer="FiLM",
    points=1,
    difficulty="easy",
    minutes=9,
    section="What gradcheck does not ask",
    constraints="also while any of the three tensors is frozen",
    reference=film,
    samplers={
        "4 rows of 3": lambda rng: (normal(rng, 4, 3), normal(rng, 3), normal(rng, 3)),
        "one row": lambda rng: (normal(rng, 1, 5), normal(rng, 5), normal(rng, 5)),
        "rows of one number": lambda rng: (normal(rng, 6, 1), normal(rng, 1), normal(rng, 1)),
    },
    checks=CONDUCT,
    modeled_on="Liger-Kernel #930: a fused loss that was right as long as all of its inputs "
    "asked for a gradient",
)
