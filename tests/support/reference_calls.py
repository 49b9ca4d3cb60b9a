"""Calls to every reference Function, in all ways that its docstring allows."""

from typing import Any

import torch
from cases.making import CPLX, X, Y, draw
from torch import Tensor

from autograd_course import functions as fn

INF = float("inf")
MASKED = torch.tensor([[0.5, -INF, 2.0], [-INF, -INF, -INF]])
TIES = torch.tensor([[1.0, 3.0, 3.0], [2.0, 0.0, 1.0]])
ROWS = torch.tensor([[1, 0, 1], [3, 1, 1]])


def clamp(x: Tensor, low: float, high: float) -> Tensor:
    """Clamp with slope 1 at the bounds, as in PyTorch up to 2.13. Later, this slope is 0."""
    return torch.where(x < low, low, torch.where(x > high, high, x))


def on_the_grid(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
    """Return the multiples of the step. The rounding error counts as a constant."""
    v = clamp(x / step, low, high)
    return step * (v + (v.round() - v).detach())


def soft_sample(logits: Tensor, noise: Tensor, temperature: float, hard: bool) -> Tensor:
    return ((logits + noise) / temperature).softmax(-1)


def second_order(logits: Tensor, noise: Tensor) -> Tensor:
    """Return ReinMax as a difference of two softmaxes. The first one uses the mean of p and y."""
    p = logits.softmax(-1)
    y = (logits + noise) == (logits + noise).amax(-1, keepdim=True)
    moved = (((p + y) / 2).log() - logits).detach()
    return 2 * (logits + moved).softmax(-1) - p / 2


Q, K, V = draw(2, 5, 3), draw(2, 4, 3, seed=1), draw(2, 4, 2, seed=2)

TRIANGLE = draw(4, 4, seed=3) / 2 + 2 * torch.eye(4)

CLASSES = torch.tensor([0, 4, -100])


def checkpointed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return fn.checkpoint(lambda x, w: torch.tanh(x @ w), x, w)


def tanh_blocks(x1: torch.Tensor, x2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return fn.coupled([(torch.nn.Tanh(), torch.nn.Tanh())] * 3, x1, x2)


def smoothed(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return fn.linear_cross_entropy(x, w, CLASSES, b, label_smoothing=0.1, chunk=2)


def row_losses(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return fn.linear_cross_entropy(x, w, CLASSES, reduction="none", chunk=2)


REFERENCE_CALLS = [
    (fn.Square, (X,)),
    (fn.Square, (CPLX,)),
    (fn.Square, (draw(),)),
    (fn.Square, (torch.zeros(0, 3),)),
    (fn.ScaledSigmoid, (X, -2.0, 1.5)),
    (fn.WeightedSum, (X, Y, draw(3, 4, seed=9))),
    (fn.ClippedReLU, (5 * X, 2.0)),
    (fn.ClippedReLU, (torch.tensor([0.0, 6.0, 3.0]),)),
    (fn.LeakyReLUInPlace, (X, 0.1)),
    (fn.LeakyReLUInPlace, (draw(), 2.0)),
    (fn.Sort, (draw(3, 5),)),
    (fn.Sort, (draw(2, 1, 4), True)),
    (fn.GumbelSoftmax, (X, Y, 0.7)),
    (fn.GumbelSoftmax, (draw(4), draw(4, seed=1))),
    (fn.Linear, (draw(2, 3, 4), draw(5, 4), draw(5))),
    (fn.Linear, (X, draw(5, 4))),
    (fn.Linear, (X, draw(5, 4), None)),
    (fn.ToPolar, (X, Y)),
    (fn.Sinh, (X,)),
    (fn.Sinh, (draw(),)),
    (fn.Softplus, (X,)),
    (fn.Softplus, (torch.zeros(0, 3),)),
    (fn.ScaledDotProductAttention, (Q, K, V)),
    (fn.ScaledDotProductAttention, (Q, K, V, None, True)),
    (fn.ScaledDotProductAttention, (Q, K, V, draw(5, 4, seed=3))),
    (fn.Multiply, (draw(2, 1, 4), draw(3, 1, seed=1))),
    (fn.Multiply, (X, draw(seed=1))),
    (fn.Multiply, (CPLX, CPLX[:1] + 1)),
    (fn.MatMul, (X, draw(4, 5))),
    (fn.MatMul, (draw(2, 1, 3, 4), draw(5, 4, 2, seed=1))),
    (fn.Max, (X,)),
    (fn.Max, (draw(2, 3, 4), (0, -1), True)),
    (fn.Softmax, (X, 0)),
    (fn.LogSumExp, (X,)),
    (fn.LogSumExp, (draw(2, 3, 4), (0, -1), True)),
    (fn.Standardize, (draw(6, 3),)),
    (fn.Standardize, (draw(3, 2, 4), (0, 2), 0.1)),
    (fn.Conv1d, (draw(2, 3, 7), draw(4, 3, 3, seed=1))),
    (fn.Conv1d, (draw(2, 4, 8), draw(6, 2, 3, seed=1), 2, 1, 2)),
    (fn.LocalResponseNorm, (draw(2, 5, 2), 3, 1.0)),
    (fn.LocalResponseNorm, (draw(1, 4), 4, 2.0, 0.5, 0.7)),
    (fn.Lookup, (draw(4, 3), ROWS)),
    (fn.Lookup, (draw(4), ROWS)),
    (fn.Swish, (3 * X,)),
    (fn.LearnedSwish, (X, draw())),
    (fn.LearnedSwish, (X, draw(4, seed=1))),
    (fn.GELU, (2 * X,)),
    (fn.SoftThreshold, (2 * X, torch.tensor(0.5))),
    (fn.SoftThreshold, (2 * X, draw(3, 1, seed=1).abs())),
    (fn.SoftRank, (draw(2, 4), 0.5)),
    (fn.SmoothMaximum, (X, torch.tensor(0.7))),
    (fn.PackedReLU, (X,)),
    (fn.LinearReLU, (draw(2, 3, 4), draw(5, 4), draw(5))),
    (fn.LinearReLU, (X, draw(5, 4), None, "sign")),
    (fn.AddReLU, (X, Y)),
    (fn.AddReLU, (X, draw(3, 1, seed=9))),
    (checkpointed, (X, draw(4, 2, seed=9))),
    (tanh_blocks, (X, Y)),
    (smoothed, (X, draw(5, 4), draw(5))),
    (row_losses, (X, draw(5, 4))),
    (fn.LambertW, (X.abs(),)),
    (fn.LambertW, (torch.tensor([0.0, -0.2, 3.0]),)),
    (fn.LambertW, (draw().abs(),)),
    (fn.Equilibrium, (X, draw(4, 4, seed=3) / 30)),
    (fn.Equilibrium, (draw(2, 1), torch.tensor([[0.2]]))),
    (fn.TriangularSolve, (TRIANGLE, X.t())),
    (fn.TriangularSolve, (TRIANGLE, X.t()[:, :1], False)),
    (fn.ScaledDotProductAttention, (draw(4, 5, 3, seed=6), K, V, None, True, 0.7, 0.3, 8)),
    (fn.TiledAttention, (Q, K, V, None, True, None, 0.0, 0, (2, 3))),
    (fn.TiledAttention, (Q, K, V, draw(5, 4, seed=3), False, None, 0.0, 0, (2, 3))),
    (fn.TiledAttention, (draw(4, 5, 3, seed=6), K, V, None, True, 0.7, 0.3, 8)),
]

# Calls that are only diagnosed, because finite differences fail at a kink or an infinity.
DIAGNOSED_CALLS = [
    (fn.Max, (TIES,)),
    (fn.Max, (torch.ones(2, 3),)),
    (fn.LogSumExp, (MASKED,)),
]

# Functions whose backward is not the derivative of forward, with the options that declare this.
DECLARED_CALLS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (fn.GradientReversal, (X,), {"intentional": ("flipped-sign",)}),
    (fn.SignSTE, (X,), {"surrogate": lambda x: 1 * x}),
    (fn.ClippedSTE, (X,), {"surrogate": lambda x: clamp(x, -1, 1)}),
    (fn.ClippedSTE, (X, 0.5), {"surrogate": lambda x, bound: clamp(x, -bound, bound)}),
    (fn.ClippedSTE, (torch.tensor([-1.0, 0.0, 1.0]),), {"surrogate": lambda x: clamp(x, -1, 1)}),
    (fn.RoundSTE, (3 * X,), {"surrogate": lambda x: 1 * x}),
    (fn.FakeQuantize, (2 * X, torch.tensor(0.3), -4, 3), {"surrogate": on_the_grid}),
    (fn.FakeQuantize, (X, torch.tensor([0.5]), 0, 3), {"surrogate": on_the_grid}),
    (fn.GumbelSoftmax, (X, Y, 0.7, True), {"surrogate": soft_sample}),
    (fn.ReinMax, (X, Y), {"surrogate": second_order}),
]
