"""Repair: the temperature that stays

1. The engine connects a node to the tensors that apply was given. Which tensors was it given here,
   and which did forward use?
2. Pass the temperature to apply, as a second argument, and save it. Then derive ∂y/∂t of tanh(x /
   t): an inner derivative once more. One number is used by all elements of x, so its gradient
   collects from all of them.
3. s = g · (1 - y²). The gradient of x is s / t, that of t is -(s · x).sum() / t².
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, positive


def tempered(x: Tensor, temperature: Tensor) -> Tensor:
    """Return ``tanh(x / t)`` for a temperature of no axes."""
    return torch.tanh(x / temperature)


EXERCISE = FunctionExercise(
    answer="Tempered",
    points=2,
    difficulty="medium",
    minutes=10,
    section="Step 2: the contract",
    constraints="the temperature is an argument, and its gradient has its shape",
    reference=tempered,
    samplers={
        "a 3×5 matrix": lambda rng: (normal(rng, 3, 5), positive(rng)),
        "a vector": lambda rng: (normal(rng, 4), positive(rng)),
        "three axes, one of length 1": lambda rng: (normal(rng, 2, 1, 3), positive(rng)),
        "a single number (0-dim)": lambda rng: (normal(rng), positive(rng)),
    },
    checks=CONDUCT,
    modeled_on="torchdiffeq #104, where tensors that a solver's right-hand side had used "
    "without being handed them got no gradient",
)
