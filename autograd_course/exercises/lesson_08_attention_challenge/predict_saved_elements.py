"""Predict: what is saved for backward

1. Write down the shape of each tensor in save_for_backward. The inputs q, k and v do not count.
2. The weights have a row for each query and a column for each key. The output and the log-sum-exp
   have a row for each query, and their width does not depend on the number of keys.
3. In c, the softmax saves its output, and the product with v saves the same tensor, so it counts
   once. A division by a number saves nothing.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from autograd_doctor.memory import kept_bytes
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.exercise import PredictionExercise

FLOAT32 = 4


def outcome() -> list[int]:
    """Return the number of elements that each of the four calls in the exercise saves."""

    class SavesWeights(Function):
        @staticmethod
        def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            p = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)
            ctx.save_for_backward(q, k, v, p)
            return p @ v

    class SavesOutput(Function):
        @staticmethod
        def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            s = q @ k.mT / math.sqrt(q.shape[-1])
            lse = torch.logsumexp(s, -1, keepdim=True)
            out = torch.exp(s - lse) @ v
            ctx.save_for_backward(q, k, v, out, lse)
            return out

    def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v

    def saved(fn: Any, queries: int, keys: int) -> int:
        inputs = torch.zeros(queries, 8), torch.zeros(keys, 8), torch.zeros(keys, 8)
        return kept_bytes(fn, *inputs) // FLOAT32

    with torch.enable_grad():
        return [
            saved(SavesWeights, 100, 1000),
            saved(SavesOutput, 100, 1000),
            saved(plain, 100, 1000),
            saved(SavesOutput, 1000, 100),
        ]


EXERCISE = PredictionExercise(
    answer="prediction",
    points=1,
    difficulty="easy",
    minutes=4,
    section="Save one number for each row",
    outcome=outcome,
    mistakes={
        (1, 100900): "Tier 2 saves the weights, but neither the output nor the log-sum-exp.",
        (2, 800): "The output has 800 elements. Tier 3 also saves the log-sum-exp.",
        (2, 9000): "The output and the log-sum-exp have a row for each query, not for each key.",
        (3, 200000): "The backward of the division needs no scores. Autograd saves the weights, "
        "once for softmax and product together.",
        (3, 0): "Autograd saves tensors for plain operations, too.",
        (4, 900): "The output and the log-sum-exp have a row for each query, and now there are "
        "1,000 queries.",
    },
)
