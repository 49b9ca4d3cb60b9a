"""Calls of every reference Function, in the ways that its docstring allows."""

import torch
from cases.making import CPLX, X, Y, draw

from autograd_course.functions import (
    ClippedReLU,
    Linear,
    ScaledDotProductAttention,
    ScaledSigmoid,
    Square,
    TiledAttention,
    ToPolar,
    WeightedSum,
)

Q, K, V = draw(2, 5, 3), draw(2, 4, 3, seed=1), draw(2, 4, 2, seed=2)

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
    (ScaledDotProductAttention, (draw(4, 5, 3, seed=6), K, V, None, True, 0.7, 0.3, 8)),
    (TiledAttention, (Q, K, V, None, True, None, 0.0, 0, (2, 3))),
    (TiledAttention, (Q, K, V, draw(5, 4, seed=3), False, None, 0.0, 0, (2, 3))),
    (TiledAttention, (draw(4, 5, 3, seed=6), K, V, None, True, 0.7, 0.3, 8)),
]
