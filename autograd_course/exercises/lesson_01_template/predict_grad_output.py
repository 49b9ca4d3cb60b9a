"""Predict: what backward receives

1. grad_output is the derivative of the loss with respect to y, the output of the Function. Forget
   for a moment how y depends on x.
2. Write each loss as a function of y. If y appears twice, both uses count. In d, treat x as a
   constant while you differentiate with respect to y.
3. a: the derivative of 5y. b: of y², at y = 9. c: of y + 4y. d: of 2xy with respect to y, at x = 3.
   e: of (y₀ + y₁ + y₂ + y₃) / 4 with respect to y₀.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, grad

from autograd_course.grader.exercise import PredictionExercise


def outcome() -> list[float]:
    """Return the ``grad_output`` that ``Square`` receives for each loss in the exercise."""
    received: list[float] = []

    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            received.append(grad_output.flatten()[0].item())
            gradient: Tensor = 2 * x * grad_output
            return gradient

    square: Any = Square.apply
    with torch.enable_grad():
        x = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
        y = square(x)
        for loss in (5 * y, y * y, y + 4 * y, 2 * x * y):
            grad(loss, x, retain_graph=True)
        four = torch.ones(4, dtype=torch.float64, requires_grad=True)
        grad(square(four).mean(), four)
    return received


RETURNED = "That is what `backward` returns, the gradient of x. What does it receive?"
EXERCISE = PredictionExercise(
    answer="prediction",
    points=1,
    difficulty="easy",
    minutes=4,
    section="What backward is asked for",
    section_is_on_backward=True,
    outcome=outcome,
    mistakes={
        (1, 1.0): "`grad_output` is 1 for the loss `y`. Here the loss is five times as large.",
        (1, 30.0): RETURNED,
        (2, 9.0): "`y` is used twice in the product, and both uses count.",
        (2, 108.0): RETURNED,
        (3, 1.0): "That is the contribution of the first use of `y`. Add the second one.",
        (3, 4.0): "That is the contribution of the second use of `y`. Add the first one.",
        (4, 2.0): "The loss is `2 * x * y`, so its derivative with respect to `y` contains `x`.",
        (5, 1.0): "That is `grad_output` after a sum. A mean also divides.",
        (5, 4.0): "A mean divides by the number of elements.",
    },
)
