"""Predict: what forward receives

1. With a generated rule, forward receives a tensor that reports the shape of one sample. Each vmap
   hides one dim.
2. in_dims says which dim of the tensor vmap hides. By default, it hides dim 0. What is left of the
   shape (4, 5, 3) in a, b and c?
3. In d, the rule calls apply on the whole tensor, so no dim is hidden. The four numbers are 5 · 3,
   4 · 5, 3, and 4 · 5 · 3.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.func import vmap

from autograd_course.grader.exercise import PredictionExercise


def outcome() -> list[int]:
    """Return how many elements forward receives in each of the exercise's four programs."""
    received: list[int] = []

    class Half(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Tensor) -> Tensor:
            received.append(x.numel())
            return x / 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

    class Whole(Half):
        generate_vmap_rule = False

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Tensor) -> tuple[Tensor, int]:
            y: Tensor = Whole.apply(x.movedim(in_dims[0], 0))  # type: ignore[no-untyped-call]
            return y, 0

    half: Any = Half.apply
    whole: Any = Whole.apply
    x = torch.ones(4, 5, 3)
    vmap(half)(x)
    vmap(half, in_dims=2)(x)
    vmap(vmap(half))(x)
    vmap(whole)(x)
    return received


HIDDEN = "With a generated rule, the tensor that forward receives hides the batch dim."
EXERCISE = PredictionExercise(
    answer="prediction",
    points=1,
    difficulty="easy",
    minutes=4,
    section="vmap, generated",
    needs_sections=("vmap, by hand",),
    outcome=outcome,
    mistakes={
        (1, 60): HIDDEN,
        (2, 60): HIDDEN,
        (2, 15): "With `in_dims=2`, vmap hides dim 2, not dim 0.",
        (3, 15): "Each of the two vmaps hides a dim.",
        (4, 15): "A handwritten rule receives the whole tensor and passes it to `apply`.",
    },
)
