"""Linear and ReLU in one

1. As separate layers, the ReLU would save its output, and the linear layer would save its input and
   weight. What does the ReLU's backward read from the output?
2. It only reads where the output is positive. So set grad_output to zero where the output is zero.
   The rest is the backward of a linear layer, which you know from lesson 01.
3. In setup_context, save x, weight and output. In backward, let g = grad_output * (y > 0). The
   gradients are g @ weight, g.t() @ x and g.sum(0).
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.exercises.lesson_07_memory_patterns._saved import (
    bytes_of,
    keeps_no_intermediate,
)
from autograd_course.grader.checks import CONDUCT, keeps_at_most, no_copy_on_ctx
from autograd_course.grader.checks.calling import applied, found
from autograd_course.grader.exercise import FunctionExercise, by_values
from autograd_course.grader.sampling import normal


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return ``max(x Wᵀ + b, 0)``."""
    return torch.nn.functional.linear(x, weight, bias).relu()


@by_values
def stops_at_zero(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that the gradient is 0 where the input of the ReLU is exactly 0."""
    x, weight = (torch.tensor([row], dtype=torch.float64) for row in ((1.0, -1.0), (1.0, 1.0)))
    given, outputs = applied(function, (x, weight, torch.zeros(1, dtype=torch.float64)))
    (gradient,) = torch.autograd.grad(outputs[0].sum(), given[0])
    if not gradient.any():
        return None
    return found(
        "kink-convention",
        "Where x Wᵀ + b is exactly 0, your gradient passes. This exercise asks for 0 there, as in "
        "`torch.relu`. Everywhere else your gradient is right.",
        {"at": 0.0},
        "At a kink no derivative exists, so the exercise states a convention. Which comparison in "
        "backward includes 0?",
    )


EXERCISE = FunctionExercise(
    answer="LinearReLU",
    points=2,
    difficulty="easy",
    minutes=9,
    section="Fuse two operations",
    constraints="nothing but inputs and the output is saved",
    reference=linear_relu,
    samplers={
        "a batch of 5 rows": lambda rng: (normal(rng, 5, 3), normal(rng, 4, 3), normal(rng, 4)),
        "a single row": lambda rng: (normal(rng, 1, 3), normal(rng, 2, 3), normal(rng, 2)),
        "one feature in": lambda rng: (normal(rng, 6, 1), normal(rng, 3, 1), normal(rng, 3)),
    },
    checks=(
        *CONDUCT,
        no_copy_on_ctx,
        keeps_at_most(
            lambda x, weight, bias: bytes_of(x, weight, bias) + len(x) * len(weight) * x.itemsize,
            "the inputs and the output, and nothing else",
        ),
        keeps_no_intermediate,
        stops_at_zero,
    ),
)
