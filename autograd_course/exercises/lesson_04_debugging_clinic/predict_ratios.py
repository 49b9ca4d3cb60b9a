"""Predict: three ratios

1. Write down two formulas: the gradient that backward returns, and the true one. Divide the first
   by the second elementwise.
2. The loss is 5 times the sum of y, so backward receives 5 for each element of y.
3. In a, backward does not divide by the number of elements, 8. In b, it has the wrong sign. In c,
   it does not multiply by grad_output, which is 5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, grad

from autograd_course.grader.exercise import PredictionExercise

Backward = Callable[[Tensor, Tensor], Tensor]


def ratio(forward: Callable[[Tensor], Tensor], wrong: Backward) -> float:
    """Return the ratio of the gradient from an incorrect backward to the true gradient."""

    class Broken(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return wrong(x, grad_output)

    broken: Any = Broken.apply
    with torch.enable_grad():
        x = torch.linspace(1, 2, 8, dtype=torch.float64, requires_grad=True)
        (claimed,) = grad(5 * broken(x).sum(), x)
        (true,) = grad(5 * forward(x).sum(), x)
    return float((claimed / true).mean())


def outcome() -> list[float]:
    """Return the gradient ratio for each of the exercise's three Functions."""
    return [
        ratio(torch.mean, lambda x, g: g * torch.ones_like(x)),
        ratio(torch.reciprocal, lambda x, g: g / x**2),
        ratio(torch.exp, lambda x, g: x.exp()),
    ]


EXERCISE = PredictionExercise(
    answer="prediction",
    points=1,
    difficulty="easy",
    minutes=4,
    section="Step 3: magnitudes",
    outcome=outcome,
    mistakes={
        (1, 0.125): "The ratio is the gradient from backward divided by the true one, and not the "
        "other way round.",
        (1, 40.0): "Both gradients contain the factor 5 of the loss, so it cancels.",
        (2, 1.0): "The derivative of 1/x is −1/x².",
        (3, 5.0): "The ratio is the gradient from backward divided by the true one, and not the "
        "other way round.",
        (3, 1.0): "The loss multiplies y by 5. Which of the two gradients contains this factor?",
    },
)
