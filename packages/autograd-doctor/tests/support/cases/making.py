"""Helpers for cases: Functions made from a forward and a backward, and reproducible samples.

``saving(f, b)`` makes a Function from its forward ``f(*args)`` and its backward ``b(*args, *gs)``;
``raw(f, b)`` makes one from methods that take ctx.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

Call = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    rule: str
    what: str
    fn: Any
    inputs: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)


def raw(forward: Call, backward: Call) -> type[Function]:
    """Return a Function with these two methods."""

    class Made(Function):
        pass

    Made.forward, Made.backward = staticmethod(forward), staticmethod(backward)
    return Made


def saving(f: Call, b: Call) -> type[Function]:
    """Return a Function that saves all its arguments and passes them to its backward."""

    def forward(ctx: Any, *args: Any) -> Any:
        ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)))
        ctx.others = [a if not isinstance(a, Tensor) else None for a in args]
        return f(*args)

    def backward(ctx: Any, *gs: Any) -> Any:
        tensors = iter(ctx.saved_tensors)
        args = [next(tensors) if other is None else other for other in ctx.others]
        return b(*args, *gs)

    return raw(forward, backward)


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return a normal sample that does not depend on the order of the tests."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


X, Y, W = draw(3, 4), draw(3, 4, seed=1), draw(5, 4, seed=2)
POSITIVE = X.abs() + 0.5
CPLX = draw(5, dtype=torch.complex128)
IDX = torch.tensor([0, 2, 2, 3])
TABLE = draw(6, 3, seed=3)
