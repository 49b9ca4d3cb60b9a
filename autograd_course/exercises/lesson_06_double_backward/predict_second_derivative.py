"""Predict: a path is missing

1. Write L = y² with y = x³ as a function of x alone. This gives you both true derivatives.
2. The first derivative that autograd computes is 3s · 2y, where s is the saved x². Which of its two
   factors still depend on x in the graph?
3. s was computed inside forward, where nothing is recorded, so it is a constant in the graph. Only
   2y depends on x: the second derivative is 3s · 2 · dy/dx, and dy/dx is 3s.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, grad

from autograd_course.grader.exercise import PredictionExercise


def outcome() -> list[float]:
    """Return the first and second derivatives of the exercise's loss at 1."""

    class Cube(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            square = x * x
            ctx.save_for_backward(square)
            return square * x

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Tensor:
            (square,) = ctx.saved_tensors
            gradient: Tensor = 3 * square * grad_output
            return gradient

    cube: Any = Cube.apply
    with torch.enable_grad():
        x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
        (first,) = grad(cube(x) ** 2, x, create_graph=True)
        (second,) = grad(first, x)
    return [first.item(), second.item()]


EXERCISE = PredictionExercise(
    answer="prediction",
    points=1,
    difficulty="medium",
    minutes=7,
    section="Two paths through a gradient",
    outcome=outcome,
    mistakes={
        (1, 3.0): "That is the derivative of x³. The loss is its square.",
        (2, 30.0): "That is the true second derivative of x⁶. In this graph one of the paths to x "
        "is missing.",
        (
            2,
            0.0,
        ): "One path is missing, but the other one remains: `grad_output` also depends on x.",
        (2, 12.0): "That is what the missing path contributes. Which path remains?",
    },
)
