"""Swish

1. Write down the derivative with both x and σ(x). Which of the two can you compute from the other,
   at any x, without losing digits?
2. You get σ(x) from x with one cheap operation. You cannot compute x from σ(x) where σ rounds to 1.
   You cannot compute x from y either, because two values of x have the same y.
3. Save x alone. In backward, compute s = torch.sigmoid(x). The derivative is s · (1 + x · (1 - s)).
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, MANY, keeps_at_most, on, without
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, shaped
from autograd_course.grader.suspecting import returning


def swish(x: Tensor) -> Tensor:
    """Return ``x σ(x)``."""
    return x * torch.sigmoid(x)


one_tensor = keeps_at_most(lambda x: x.numel() * x.element_size(), "one tensor of the size of x")

EXERCISE = FunctionExercise(
    answer="Swish",
    points=2,
    difficulty="easy",
    minutes=8,
    section="What must be saved?",
    constraints="no more than one tensor of the size of x is kept for backward",
    reference=swish,
    samplers=shaped(normal),
    suspects={
        "This is the sigmoid of x. The factor x is missing.": torch.sigmoid,
        "This is x · tanh(x). The exercise asks for the sigmoid.": lambda x: x * torch.tanh(x),
    },
    gradient_suspects={
        "The first term is x here. By the product rule, it is σ(x), the other factor.": returning(
            swish, lambda x, g: g * (x + x.sigmoid() * (1 - x.sigmoid()))
        ),
    },
    checks=(
        *CONDUCT,
        one_tensor,
        on(lambda rng: (normal(rng, *MANY),), one_tensor),
        without("silu", "silu_backward", use="torch.sigmoid and a product"),
    ),
)
