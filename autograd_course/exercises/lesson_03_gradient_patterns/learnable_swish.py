"""Swish with a learnable β

1. Two tensors go in, so two gradients come out, each with the shape of its own input. β is one
   number, and every element of y depends on it.
2. β was copied to every element. So its gradient is the sum over all elements of grad_output ·
   ∂y/∂β. In ∂y/∂x, β appears as the inner derivative of σ(βx).
3. With s = σ(βx): ∂y/∂x = s + βx·s(1 - s) and ∂y/∂β = x²·s(1 - s). Multiply each by grad_output,
   sum the second over all elements, and reshape the sum to beta.shape.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, positive


def learnable_swish(x: Tensor, beta: Tensor) -> Tensor:
    """Return ``x σ(βx)``, where β is a tensor with one element."""
    return x * torch.sigmoid(beta * x)


EXERCISE = FunctionExercise(
    answer="LearnableSwish",
    points=2,
    difficulty="medium",
    minutes=15,
    section="One parameter for all elements",
    constraints="the gradient of β has the shape of β",
    reference=learnable_swish,
    samplers={
        "a 3×5 matrix, β without a dim": lambda rng: (normal(rng, 3, 5), positive(rng)),
        "a vector, β of shape (1,)": lambda rng: (normal(rng, 5), positive(rng, 1)),
        "three dims, a negative β": lambda rng: (normal(rng, 2, 1, 3), -positive(rng, 1)),
        "a single number (0-dim)": lambda rng: (normal(rng), positive(rng)),
    },
    checks=CONDUCT,
)
