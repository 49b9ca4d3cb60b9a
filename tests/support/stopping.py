"""A Function whose backward has a breakpoint for a debugger. ``python stopping.py`` runs it."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function


class Square(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        if "settrace" in sys.argv:
            import pydevd

            pydevd.settrace(suspend=False, trace_only_current_thread=True)
        (x,) = ctx.saved_tensors
        return 2 * x * grad_output  # stop here


class Nested(Function):
    """Square, with ``depth`` backward passes nested inside each other."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, depth: int) -> Tensor:
        ctx.save_for_backward(x)
        ctx.depth = depth
        return x * x

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = Nested.apply(x, ctx.depth - 1) if ctx.depth else Square.apply(x)
        return torch.autograd.grad(y, x, grad_output)[0], None


def here() -> None:
    """Run backward in the calling thread."""
    Square.apply(torch.ones(3, requires_grad=True)).sum().backward()


def in_a_thread_of_the_engine() -> None:
    """Run backward in a thread that the engine creates."""
    Nested.apply(torch.ones(3, requires_grad=True), 100).sum().backward()


if __name__ == "__main__":
    in_a_thread_of_the_engine() if "engine" in sys.argv else here()
