"""Predict: how many KiB are saved

1. For each operation, ask what its backward formula reads: an input, the output, or nothing. Then
   count the bytes of these tensors.
2. Two nodes can save the same tensor, and a view shares the storage of its base. Count each storage
   once. A float32 takes four bytes, and a torch.bool takes one.
3. The relu saves its output. The sigmoid saves its output, and the product saves h and this output.
   In c, the mask is the only factor that backward needs. In d, the exp saves its whole output.
"""

from __future__ import annotations

import torch
from autograd_doctor.memory import kept_bytes
from torch import Tensor

from autograd_course.grader.exercise import PredictionExercise

KIB = 1024


def outcome() -> list[float]:
    """Return how many KiB each of the four programs in the exercise saves for backward."""

    def a(x: Tensor) -> Tensor:
        h = 2 * x
        return h + torch.relu(h)

    def b(x: Tensor) -> Tensor:
        h = 2 * x
        return h * torch.sigmoid(h)

    def c(x: Tensor) -> Tensor:
        return (2 * x) * (x > 0)

    def d(x: Tensor) -> Tensor:
        return torch.exp(2 * x)[:, :1]

    x = torch.ones(256, 64)
    return [kept_bytes(program, x) / KIB for program in (a, b, c, d)]


EXERCISE = PredictionExercise(
    answer="prediction",
    points=1,
    difficulty="easy",
    minutes=5,
    section="What autograd saves, and until when",
    needs_sections=("Save something smaller", "A view keeps the whole storage"),
    outcome=outcome,
    mistakes={
        (1, 128.0): "The relu saves its output and not its input. An addition saves nothing.",
        (1, 192.0): "The relu saves its output and not its input. An addition saves nothing.",
        (2, 64.0): "The product needs both of its factors.",
        (2, 192.0): "The output of the sigmoid is saved by two nodes, but in one storage.",
        (3, 64.0): "The mask requires no gradient, so backward needs the mask and not `2 * x`. How "
        "many bytes does an element of the mask take?",
        (3, 80.0): "The mask requires no gradient, so backward does not need `2 * x`.",
        (3, 2.0): "A `torch.bool` takes one byte for each element, unless you pack it.",
        (4, 1.0): "The exp saves its output before the slice, and a storage stays as a whole.",
        (4, 128.0): "The exp saves only its output, because its derivative is the output.",
        (4, 65.0): "The slice is a view, so it has no storage of its own.",
    },
)
