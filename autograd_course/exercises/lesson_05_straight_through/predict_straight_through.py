"""Predict: four gradients through a sign

1. Each STE uses its surrogate only for its own derivative. Everything else in the loss sees +1 or
   -1. In a, what is 2 · (3y - 1) if y is the sign of 0.4?
2. b and d are products, so use the product rule. Which of the two factors has derivative 1 by
   design, and which one has its ordinary derivative?
3. In b, the two terms are sign(x) · 1 and x · 1. In c, the input of the clipped STE is 1.6. In d,
   torch.sign contributes 0 and the STE contributes torch.sign(x) · 1.
"""

import torch
from torch import Tensor

from autograd_course.exercises.lesson_05_straight_through._sign import clipped, sign
from autograd_course.grader.exercise import PredictionExercise


def passed(x: Tensor, surrogate: Tensor) -> Tensor:
    """Return the sign of ``x`` with the surrogate's gradient."""
    return sign(x).detach() + surrogate - surrogate.detach()


def outcome() -> list[float]:
    """Return the gradients of the exercise's four losses at 0.4."""
    with torch.enable_grad():
        x = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
        losses = (
            (3 * passed(x, x) - 1) ** 2,
            x * passed(x, x),
            passed(4 * x, clipped(4 * x)),
            torch.sign(x) * passed(x, x),
        )
        return [torch.autograd.grad(loss, x)[0].item() for loss in losses]


OUTSIDE = "The input of the clipped STE is 4x = 1.6, which is outside [-1, 1]."
EXERCISE = PredictionExercise(
    answer="prediction",
    points=1,
    difficulty="medium",
    minutes=7,
    section="Declare the surrogate",
    outcome=outcome,
    mistakes={
        (
            1,
            1.2,
        ): "That is the gradient of (3x - 1)². The rest of the loss sees sign(x) = 1 and not x.",
        (1, 4.0): "The chain rule has one more factor: the derivative of 3y - 1.",
        (1, 0.0): "That is the true gradient. `SignSTE` has the slope of its surrogate.",
        (2, 1.0): "That is the true derivative of |x|. The STE adds the second term of the product "
        "rule.",
        (2, 0.8): "That is the derivative of x². The first factor is multiplied by sign(x), not by "
        "x.",
        (3, 4.0): OUTSIDE,
        (3, 1.0): OUTSIDE,
        (4, 0.0): "The loss is always 1, so its true gradient is 0. But one of the factors is an "
        "STE.",
        (4, 2.0): "Only one of the two factors is an STE. What is the gradient of `torch.sign`?",
    },
)
