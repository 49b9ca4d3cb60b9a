"""Calls of every reference Function, in the ways that its docstring allows."""

import torch
from cases.making import CPLX, X, Y, draw

from autograd_course.functions import (
    AddReLU,
    ClippedReLU,
    Linear,
    LinearReLU,
    PackedReLU,
    ScaledDotProductAttention,
    ScaledSigmoid,
    Square,
    TiledAttention,
    ToPolar,
    WeightedSum,
    checkpoint,
    coupled,
    linear_cross_entropy,
)

Q, K, V = draw(2, 5, 3), draw(2, 4, 3, seed=1), draw(2, 4, 2, seed=2)

CLASSES = torch.tensor([0, 4, -100])


def checkpointed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return checkpoint(lambda x, w: torch.tanh(x @ w), x, w)


def tanh_blocks(x1: torch.Tensor, x2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return coupled([(torch.nn.Tanh(), torch.nn.Tanh())] * 3, x1, x2)


def smoothed(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return linear_cross_entropy(x, w, CLASSES, b, label_smoothing=0.1, chunk=2)


def row_losses(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return linear_cross_entropy(x, w, CLASSES, reduction="none", chunk=2)


REFERENCE_CALLS = [
    (Square, (X,)),
    (Square, (CPLX,)),
    (Square, (draw(),)),
    (Square, (torch.zeros(0, 3),)),
    (ScaledSigmoid, (X, -2.0, 1.5)),
    (WeightedSum, (X, Y, draw(3, 4, seed=9))),
    (ClippedReLU, (5 * X, 2.0)),
    (ClippedReLU, (torch.tensor([0.0, 6.0, 3.0]),)),
    (Linear, (draw(2, 3, 4), draw(5, 4), draw(5))),
    (Linear, (X, draw(5, 4))),
    (Linear, (X, draw(5, 4), None)),
    (ToPolar, (X, Y)),
    (ScaledDotProductAttention, (Q, K, V)),
    (ScaledDotProductAttention, (Q, K, V, None, True)),
    (ScaledDotProductAttention, (Q, K, V, draw(5, 4, seed=3))),
    (TiledAttention, (Q, K, V, None, True, None, (2, 3))),
    (PackedReLU, (X,)),
    (LinearReLU, (draw(2, 3, 4), draw(5, 4), draw(5))),
    (LinearReLU, (X, draw(5, 4), None, "sign")),
    (AddReLU, (X, Y)),
    (AddReLU, (X, draw(3, 1, seed=9))),
    (checkpointed, (X, draw(4, 2, seed=9))),
    (tanh_blocks, (X, Y)),
    (smoothed, (X, draw(5, 4), draw(5))),
    (row_losses, (X, draw(5, 4))),
]
