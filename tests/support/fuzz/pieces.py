"""Differentiable pieces, each with a correct handwritten vector-Jacobian product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, repr=False)
class Piece:
    """A function ``f(x)`` and its ``vjp(x, g)``. ``least`` is the minimum number of dims of x."""

    name: str
    f: Callable[[Tensor], Tensor]
    vjp: Callable[[Tensor, Tensor], Tensor]
    least: int = 0

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, repr=False)
class Join:
    """A function ``f(x, y)`` and its ``vjp(x, y, g)``, which returns a gradient for each input."""

    name: str
    f: Callable[[Tensor, Tensor], Tensor]
    vjp: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]

    def __repr__(self) -> str:
        return self.name


def _matrix(x: Tensor) -> Tensor:
    """Return a fixed matrix that maps the last dimension of x to size three."""
    rows = torch.arange(3.0, dtype=torch.float64)[:, None] + 1
    columns = torch.arange(float(x.shape[-1]), dtype=torch.float64) + 1
    return torch.sin(rows * columns).to(x)


def _softmax_vjp(x: Tensor, g: Tensor) -> Tensor:
    p = torch.softmax(x, -1)
    return p * (g - (g * p).sum(-1, keepdim=True))


def _spread(x: Tensor, g: Tensor) -> Tensor:
    return g.unsqueeze(-1).expand_as(x) if x.dim() else g


ELEMENTWISE = (
    Piece("sin", torch.sin, lambda x, g: x.cos() * g),
    Piece("tanh", torch.tanh, lambda x, g: (1 - x.tanh() ** 2) * g),
    Piece("square", torch.square, lambda x, g: 2 * x * g),
    Piece("bell", lambda x: 1 / (1 + x * x), lambda x, g: -2 * x / (1 + x * x) ** 2 * g),
    Piece("triple", lambda x: 3 * x, lambda x, g: 3 * g),
    Piece("shift", lambda x: x + 1, lambda x, g: g.clone()),
    Piece("sigmoid", torch.sigmoid, lambda x, g: x.sigmoid() * (1 - x.sigmoid()) * g),
    Piece("relu", torch.relu, lambda x, g: (x > 0).to(g) * g),
    Piece("abs", torch.abs, lambda x, g: x.sign() * g),
)
ALONG = (
    Piece("sum", lambda x: x.sum(-1), _spread),
    Piece(
        "mean", lambda x: x.mean(-1), lambda x, g: _spread(x, g) / (x.shape[-1] if x.dim() else 1)
    ),
    Piece("softmax", lambda x: torch.softmax(x, -1), _softmax_vjp),
    Piece(
        "logsumexp",
        lambda x: torch.logsumexp(x, -1),
        lambda x, g: torch.softmax(x, -1) * _spread(x, g),
    ),
    Piece("cumsum", lambda x: x.cumsum(-1), lambda x, g: g.flip(-1).cumsum(-1).flip(-1), least=1),
    Piece("matmul", lambda x: x @ _matrix(x).T, lambda x, g: g @ _matrix(x), least=1),
)
ARRANGING = (
    Piece("transpose", lambda x: x.mT.clone(), lambda x, g: g.mT, least=2),
    Piece("flip", lambda x: x.flip(0), lambda x, g: g.flip(0), least=1),
    Piece("flatten", lambda x: x.reshape(-1).clone(), lambda x, g: g.reshape(x.shape)),
    Piece("repeat", lambda x: torch.stack([x, x]), lambda x, g: g.sum(0)),
)
PIECES = ELEMENTWISE + ALONG + ARRANGING


def _summed(x: Tensor, y: Tensor, gx: Tensor, gy: Tensor) -> tuple[Tensor, Tensor]:
    """Sum the gradients over broadcast dimensions."""
    return gx.sum_to_size(x.shape), gy.sum_to_size(y.shape)


JOINS = (
    Join("add", torch.add, lambda x, y, g: _summed(x, y, g, g)),
    Join("sub", torch.sub, lambda x, y, g: _summed(x, y, g, -g)),
    Join("mul", torch.mul, lambda x, y, g: _summed(x, y, g * y, g * x)),
    Join(
        "over",
        lambda x, y: x / (1 + y * y),
        lambda x, y, g: _summed(x, y, g / (1 + y * y), -2 * y * x * g / (1 + y * y) ** 2),
    ),
)
