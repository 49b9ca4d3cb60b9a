"""Repair: the temperature that does not move

1. Autograd connects a node to the tensors that you pass to apply. Which tensors did the call pass,
   and which did forward use?
2. Pass the temperature as a second argument and save it. Then derive ∂y/∂t of tanh(x / t) with the
   chain rule. All elements of x use the same temperature, so its gradient is a sum over them.
3. Let s = g · (1 - y²). The gradient of x is s / t, and the gradient of t is -(s · x).sum() / t².
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, positive
from autograd_course.grader.suspecting import returning


def tempered(x: Tensor, temperature: Tensor) -> Tensor:
    """Return ``tanh(x / t)`` for a 0-dim temperature."""
    return torch.tanh(x / temperature)


def summed_apart(x: Tensor, temperature: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return gradients in which the gradient of the temperature is a product of two sums."""
    slope = g * (1 - tempered(x, temperature) ** 2)
    return slope / temperature, -slope.sum() * x.sum() / temperature**2


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
        "three dims, one of length 1": lambda rng: (normal(rng, 2, 1, 3), positive(rng)),
        "a single number (0-dim)": lambda rng: (normal(rng), positive(rng)),
    },
    gradient_suspects={
        "For the temperature, two sums are multiplied. Multiply by x element by element first, and "
        "then sum the products.": returning(tempered, summed_apart),
    },
    checks=CONDUCT,
    modeled_on="torchdiffeq #104: a solver's right-hand side used tensors that were not "
    "arguments, and they got no gradient",
)
