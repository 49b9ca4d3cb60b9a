"""Calls of every reference Function, in the ways that its docstring allows."""

import torch
from cases.making import CPLX, X, Y, draw

from autograd_course.functions import (
    GELU,
    ClippedReLU,
    Conv1d,
    GradientReversal,
    LeakyReLUInPlace,
    LearnedSwish,
    Linear,
    LogSumExp,
    Lookup,
    MatMul,
    Max,
    Multiply,
    ScaledDotProductAttention,
    ScaledSigmoid,
    Sinh,
    Softmax,
    Softplus,
    SoftRank,
    SoftThreshold,
    Sort,
    Square,
    Standardize,
    Swish,
    TiledAttention,
    ToPolar,
    WeightedSum,
)

INF = float("inf")
MASKED = torch.tensor([[0.5, -INF, 2.0], [-INF, -INF, -INF]])
TIES = torch.tensor([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]])
ROWS = torch.tensor([[1, 0, 1], [3, 1, 1]])
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
    (LeakyReLUInPlace, (X, 0.1)),
    (LeakyReLUInPlace, (draw(), 2.0)),
    (Sort, (draw(3, 5),)),
    (Sort, (draw(2, 1, 4), True)),
    (Linear, (draw(2, 3, 4), draw(5, 4), draw(5))),
    (Linear, (X, draw(5, 4))),
    (Linear, (X, draw(5, 4), None)),
    (ToPolar, (X, Y)),
    (Sinh, (X,)),
    (Sinh, (draw(),)),
    (Softplus, (X,)),
    (Softplus, (torch.zeros(0, 3),)),
    (ScaledDotProductAttention, (Q, K, V)),
    (ScaledDotProductAttention, (Q, K, V, None, True)),
    (ScaledDotProductAttention, (Q, K, V, draw(5, 4, seed=3))),
    (TiledAttention, (Q, K, V, None, True, None, (2, 3))),
    (Multiply, (draw(2, 1, 4), draw(3, 1, seed=1))),
    (Multiply, (X, draw(seed=1))),
    (Multiply, (CPLX, CPLX[:1] + 1)),
    (MatMul, (X, draw(4, 5))),
    (MatMul, (draw(2, 1, 3, 4), draw(5, 4, 2, seed=1))),
    (Max, (X,)),
    (Max, (draw(2, 3, 4), (0, -1), True)),
    (Softmax, (X, 0)),
    (LogSumExp, (X,)),
    (LogSumExp, (draw(2, 3, 4), (0, -1), True)),
    (Standardize, (draw(6, 3),)),
    (Standardize, (draw(3, 2, 4), (0, 2), 0.1)),
    (Conv1d, (draw(2, 3, 7), draw(4, 3, 3, seed=1))),
    (Conv1d, (draw(2, 4, 8), draw(6, 2, 3, seed=1), 2, 1, 2)),
    (Lookup, (draw(4, 3), ROWS)),
    (Lookup, (draw(4), ROWS)),
    (Swish, (3 * X,)),
    (LearnedSwish, (X, draw())),
    (LearnedSwish, (X, draw(4, seed=1))),
    (GELU, (2 * X,)),
    (SoftThreshold, (2 * X, torch.tensor(0.5))),
    (SoftThreshold, (2 * X, draw(3, 1, seed=1).abs())),
    (SoftRank, (draw(2, 4), 0.5)),
]

# Diagnosed only: at a kink, or at an infinity, differences have nothing to say.
DIAGNOSED_CALLS = [
    (Max, (TIES,)),
    (LogSumExp, (MASKED,)),
]

# Not the forward's gradient, by design, and declared to be so.
DECLARED_CALLS = [
    (GradientReversal, (X,), {"intentional": ("flipped-sign",)}),
]
