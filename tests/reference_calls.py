"""Calls of every reference Function, in the ways that its docstring allows."""

from typing import Any

import torch
from cases.making import CPLX, X, Y, draw
from torch import Tensor

from autograd_course.functions import (
    GELU,
    AddReLU,
    ClippedReLU,
    ClippedSTE,
    Conv1d,
    Equilibrium,
    FakeQuantize,
    GradientReversal,
    GumbelSoftmax,
    LambertW,
    LeakyReLUInPlace,
    LearnedSwish,
    Linear,
    LinearReLU,
    LocalResponseNorm,
    LogSumExp,
    Lookup,
    MatMul,
    Max,
    Multiply,
    PackedReLU,
    ReinMax,
    RoundSTE,
    ScaledDotProductAttention,
    ScaledSigmoid,
    SignSTE,
    Sinh,
    SmoothMaximum,
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
    TriangularSolve,
    WeightedSum,
    checkpoint,
    coupled,
    linear_cross_entropy,
)

INF = float("inf")
MASKED = torch.tensor([[0.5, -INF, 2.0], [-INF, -INF, -INF]])
TIES = torch.tensor([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]])
ROWS = torch.tensor([[1, 0, 1], [3, 1, 1]])


def clamp(x: Tensor, low: float, high: float) -> Tensor:
    """Clamp, with slope 1 at the bounds: `torch.clamp` has it up to PyTorch 2.13, and 0 later."""
    return torch.where(x < low, low, torch.where(x > high, high, x))


def on_the_grid(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
    """The step's multiples, with the rounding error as a constant."""
    v = clamp(x / step, low, high)
    return step * (v + (v.round() - v).detach())


def soft_sample(logits: Tensor, noise: Tensor, temperature: float, hard: bool) -> Tensor:
    return ((logits + noise) / temperature).softmax(-1)


def second_order(logits: Tensor, noise: Tensor) -> Tensor:
    """ReinMax, as a difference of two softmaxes; the first is moved to the middle of p and y."""
    p = logits.softmax(-1)
    y = (logits + noise) == (logits + noise).amax(-1, keepdim=True)
    moved = (((p + y) / 2).log() - logits).detach()
    return 2 * (logits + moved).softmax(-1) - p / 2


Q, K, V = draw(2, 5, 3), draw(2, 4, 3, seed=1), draw(2, 4, 2, seed=2)

TRIANGLE = draw(4, 4, seed=3) / 2 + 2 * torch.eye(4)

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
    (LeakyReLUInPlace, (X, 0.1)),
    (LeakyReLUInPlace, (draw(), 2.0)),
    (Sort, (draw(3, 5),)),
    (Sort, (draw(2, 1, 4), True)),
    (GumbelSoftmax, (X, Y, 0.7)),
    (GumbelSoftmax, (draw(4), draw(4, seed=1))),
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
    (LocalResponseNorm, (draw(2, 5, 2), 3, 1.0)),
    (LocalResponseNorm, (draw(1, 4), 4, 2.0, 0.5, 0.7)),
    (Lookup, (draw(4, 3), ROWS)),
    (Lookup, (draw(4), ROWS)),
    (Swish, (3 * X,)),
    (LearnedSwish, (X, draw())),
    (LearnedSwish, (X, draw(4, seed=1))),
    (GELU, (2 * X,)),
    (SoftThreshold, (2 * X, torch.tensor(0.5))),
    (SoftThreshold, (2 * X, draw(3, 1, seed=1).abs())),
    (SoftRank, (draw(2, 4), 0.5)),
    (SmoothMaximum, (X, torch.tensor(0.7))),
    (PackedReLU, (X,)),
    (LinearReLU, (draw(2, 3, 4), draw(5, 4), draw(5))),
    (LinearReLU, (X, draw(5, 4), None, "sign")),
    (AddReLU, (X, Y)),
    (AddReLU, (X, draw(3, 1, seed=9))),
    (checkpointed, (X, draw(4, 2, seed=9))),
    (tanh_blocks, (X, Y)),
    (smoothed, (X, draw(5, 4), draw(5))),
    (row_losses, (X, draw(5, 4))),
    (LambertW, (X.abs(),)),
    (LambertW, (torch.tensor([0.0, -0.2, 3.0]),)),
    (LambertW, (draw().abs(),)),
    (Equilibrium, (X, draw(4, 4, seed=3) / 30)),
    (Equilibrium, (draw(2, 1), torch.tensor([[0.2]]))),
    (TriangularSolve, (TRIANGLE, X.t())),
    (TriangularSolve, (TRIANGLE, X.t()[:, :1], False)),
    (ScaledDotProductAttention, (draw(4, 5, 3, seed=6), K, V, None, True, 0.7, 0.3, 8)),
    (TiledAttention, (Q, K, V, None, True, None, 0.0, 0, (2, 3))),
    (TiledAttention, (Q, K, V, draw(5, 4, seed=3), False, None, 0.0, 0, (2, 3))),
    (TiledAttention, (draw(4, 5, 3, seed=6), K, V, None, True, 0.7, 0.3, 8)),
]

# Diagnosed only: at a kink, or at an infinity, differences have nothing to say.
DIAGNOSED_CALLS = [
    (Max, (TIES,)),
    (LogSumExp, (MASKED,)),
]

# Functions whose backward is not forward's derivative, with what declares it.
DECLARED_CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (GradientReversal, (X,), {"intentional": ("flipped-sign",)}),
    (SignSTE, (X,), {"surrogate": lambda x: 1 * x}),
    (ClippedSTE, (X,), {"surrogate": lambda x: clamp(x, -1, 1)}),
    (ClippedSTE, (X, 0.5), {"surrogate": lambda x, bound: clamp(x, -bound, bound)}),
    (ClippedSTE, (torch.tensor([-1.0, 0.0, 1.0]),), {"surrogate": lambda x: clamp(x, -1, 1)}),
    (RoundSTE, (3 * X,), {"surrogate": lambda x: 1 * x}),
    (FakeQuantize, (2 * X, torch.tensor(0.3), -4, 3), {"surrogate": on_the_grid}),
    (FakeQuantize, (X, torch.tensor([0.5]), 0, 3), {"surrogate": on_the_grid}),
    (GumbelSoftmax, (X, Y, 0.7, True), {"surrogate": soft_sample}),
    (ReinMax, (X, Y), {"surrogate": second_order}),
]
