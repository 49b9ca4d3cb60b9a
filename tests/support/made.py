"""Helpers that define small Functions, and measure the cost of an expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from autograd_doctor.memory import DispatchMode
from packaging.version import Version
from torch import Tensor
from torch.autograd import Function
from torch.autograd.graph import saved_tensors_hooks

# The gradient of torch.clamp exactly at its bounds.
CLAMP_AT_BOUNDS = 0.0 if Version(torch.__version__) >= Version("2.14") else 1.0


def make(forward: Callable[..., Any], backward: Callable[..., Any]) -> type[Function]:
    """Return a Function made from two lambdas."""
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Made", (Function,), methods)


def squaring(backward: Callable[[Tensor, Tensor], Tensor]) -> type[Function]:
    """Return y = x² as a Function. Its backward is ``backward(x, g)``."""

    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    return make(forward, lambda ctx, g: backward(ctx.saved_tensors[0], g))


def keeping(f: Callable[..., Tensor], backward: Callable[..., Any]) -> type[Function]:
    """Return a Function that saves its input tensors. Its backward is ``backward(g, *inputs)``."""

    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        return f(*inputs)

    return make(forward, lambda ctx, g: backward(g, *ctx.saved_tensors))


def sample(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=rng, dtype=torch.float64).requires_grad_()


def leaf(*values: float, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(values, dtype=dtype, requires_grad=True)


class CountOperations(DispatchMode):
    total = 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.total += operation is not torch.ops.aten.detach.default
        return operation(*args, **(kwargs or {}))


def price(f: Callable[..., Tensor], *inputs: Tensor) -> tuple[int, int, int]:
    """Return the numbers of operations in forward and in backward, and the bytes per element."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with CountOperations() as forward, saved_tensors_hooks(pack, lambda tensor: tensor):
        y = f(*inputs)
    g = torch.ones_like(y)
    with CountOperations() as backward:
        torch.autograd.grad(y, inputs, g)
    return forward.total, backward.total, sum(kept.values()) // inputs[0].numel()
