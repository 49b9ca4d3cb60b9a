"""Predict: how often backward runs

1. Each call of apply creates one node in the graph. One backward pass visits each node once.
2. Count the nodes that lie between the loss and x, not the uses of their outputs. Autograd adds the
   gradients of all uses of an output before it visits the node.
3. Program c runs two backward passes through one node. In program d, apply creates no node, because
   grad mode is off.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function, grad

from autograd_course.grader.exercise import PredictionExercise


def outcome() -> list[int]:
    """Return the number of calls to ``backward`` in each of the exercise's four programs."""
    calls = 0

    class Double(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return 2 * x

        @staticmethod
        def backward(ctx: Any, grad_output: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            return 2 * grad_output

    def counted(loss: Tensor, x: Tensor, passes: int = 1) -> int:
        nonlocal calls
        calls = 0
        for _ in range(passes):
            grad(loss, x, retain_graph=True)
        return calls

    double: Any = Double.apply
    with torch.enable_grad():
        x = torch.tensor(1.0, requires_grad=True)
        y = double(x)
        with torch.no_grad():
            constant = double(x)
        return [
            counted(double(x) + double(x), x),
            counted(y + y * y, x),
            counted(y, x, passes=2),
            counted(x * constant, x),
        ]


ONE_NODE = (
    "There is one node. Autograd adds the gradients of all uses of `y` first, and then calls "
    "backward once."
)
EXERCISE = PredictionExercise(
    answer="prediction",
    points=1,
    difficulty="easy",
    minutes=4,
    section="What ctx is, and how long it lives",
    outcome=outcome,
    mistakes={
        (1, 1): "Each call of `apply` creates its own node, with its own ctx.",
        (2, 2): ONE_NODE,
        (2, 3): ONE_NODE,
        (3, 1): "Each call of `grad` runs a separate backward pass, which visits the node again.",
        (4, 1): "Under `no_grad`, `apply` runs forward and creates no node.",
    },
)
