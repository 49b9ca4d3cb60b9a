"""Recomputation: how a checkpoint must treat random numbers, parameters and buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from production.operation import ONCE, Mutant, Operation, changed, normal

Grads = tuple[Tensor | None, ...]
Run = Callable[..., Tensor]


class Recomputed(Function):
    """A part of a network that saves only its inputs. Backward runs it a second time."""

    @staticmethod
    def forward(ctx: Any, run: Run, *tensors: Tensor) -> Tensor:
        ctx.run, ctx.random_state = run, torch.get_rng_state()
        ctx.save_for_backward(*tensors)
        with torch.no_grad():
            return run(*tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Grads:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(ctx.random_state)
            return again(ctx, g)


def again(ctx: Any, g: Tensor) -> Grads:
    """Run forward again with a graph, and differentiate this run."""
    needs = ctx.needs_input_grad[1:]
    leaves = [
        t.detach().requires_grad_(need) for t, need in zip(ctx.saved_tensors, needs, strict=True)
    ]
    with torch.enable_grad():
        y = ctx.run(*leaves)
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    grads = iter(torch.autograd.grad(y, wanted, g, allow_unused=True))
    return None, *(next(grads) if need else None for need in needs)


def lets_go_of_the_run(ctx: Any, g: Tensor) -> Grads:
    grads = Recomputed.backward(ctx, g)
    ctx.run = None
    return grads


# Random numbers: the second run must draw the same numbers as the first


def dropout_block(x: Tensor, weight: Tensor) -> Tensor:
    return F.dropout(torch.tanh(x @ weight), 0.4)


def dropout_recomputed(x: Tensor, weight: Tensor) -> Tensor:
    return Recomputed.apply(dropout_block, x, weight)


DrawsAgain = changed(Recomputed, backward=again)


def dropout_drawn_again(x: Tensor, weight: Tensor) -> Tensor:
    return DrawsAgain.apply(dropout_block, x, weight)


# Parameters: they must be arguments of apply, because otherwise they get no gradient


class Checkpointed(nn.Module):
    """A module whose activations are recomputed. Its parameters are arguments of ``apply``."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)
        with torch.no_grad():
            self.inner.weight.copy_(normal(3, 4, seed=5))
            self.inner.bias.copy_(normal(3, seed=6))

    def forward(self, x: Tensor) -> Tensor:
        return Recomputed.apply(self._run, x, self.inner.weight, self.inner.bias)

    @staticmethod
    def _run(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.tanh(F.linear(x, weight, bias))


class CheckpointedCaptures(Checkpointed):
    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(Recomputed.apply(self.inner, x))


# Buffers: the second run must not count the batch again


class NormBlock(nn.Module):
    """A recomputed batch norm. Only the first run, which has no graph, updates the statistics."""

    running_mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(normal(3, seed=7))
        self.register_buffer("running_mean", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        return Recomputed.apply(self._run, x, self.weight)

    def _run(self, x: Tensor, weight: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            self.running_mean.lerp_(x.detach().mean(0), 0.1)
        return torch.relu(F.batch_norm(x, None, None, weight, training=True))


class NormBlockCountsTwice(NormBlock):
    def _run(self, x: Tensor, weight: Tensor) -> Tensor:
        self.running_mean.lerp_(x.detach().mean(0), 0.1)
        return torch.relu(F.batch_norm(x, None, None, weight, training=True))


_CHECKPOINTED, _NORM = Checkpointed(), NormBlock()

OPERATIONS = (
    Operation(
        "recomputation with dropout",
        dropout_recomputed,
        (normal(3, 4), normal(4, 4, seed=1)),
        dropout_block,
        (Mutant("rng-not-restored", fn=dropout_drawn_again),),
        allowed=ONCE,
    ),
    Operation(
        "recomputation of a module with parameters",
        _CHECKPOINTED,
        (normal(3, 4),),
        lambda x: torch.tanh(F.linear(x, *(p.to(x) for p in _CHECKPOINTED.inner.parameters()))),
        (Mutant("captured-tensor", fn=CheckpointedCaptures()),),
        allowed=ONCE,
    ),
    Operation(
        "recomputation with batch statistics",
        _NORM,
        (normal(5, 3),),
        lambda x: torch.relu(F.batch_norm(x, None, None, _NORM.weight.to(x), training=True)),
        (Mutant("recompute-side-effect", fn=NormBlockCountsTwice()),),
        allowed=ONCE,
    ),
    Operation(
        "recomputation, called as a Function",
        Recomputed,
        (dropout_block, normal(3, 4), normal(4, 4, seed=1)),
        lambda run, *tensors: run(*tensors),
        (Mutant("not-reentrant", lets_go_of_the_run),),
        allowed=ONCE,
    ),
)
