"""Record how an optimizer changes weight matrices while a network trains."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook as after_each_step
from torch.optim.optimizer import register_optimizer_step_pre_hook as before_each_step

_ENGINE = "_engine_run_backward"  # all backward passes of ``torch.autograd`` call this function


@dataclass
class Watched:
    """A weight matrix: its initial signs, whether it got a gradient, and whether a sign changed."""

    tensor: Tensor
    signs: Tensor
    taught: bool = False
    flipped: bool = False

    def look(self) -> None:
        """Record whether the matrix has a nonzero gradient and whether a sign has changed."""
        gradient = self.tensor.grad
        self.taught = self.taught or (gradient is not None and bool(gradient.any()))
        self.flipped = self.flipped or bool((self.tensor.detach().sign() != self.signs).any())


@dataclass
class Training:
    """A training run: its steps and backward passes, and a record for each weight matrix."""

    steps: int = 0
    passes: int = 0
    weights: dict[int, Watched] = field(default_factory=dict)

    def untaught(self) -> list[Tensor]:
        """Return the matrices whose gradient was always zero."""
        return [weight.tensor for weight in self.weights.values() if not weight.taught]

    def unflipped(self) -> list[Tensor]:
        """Return the matrices in which no element has changed sign."""
        return [weight.tensor for weight in self.weights.values() if not weight.flipped]

    def look(self, optimizer: torch.optim.Optimizer) -> None:
        """Record the gradient and the signs of each parameter that has two or more dims."""
        for parameter in (p for group in optimizer.param_groups for p in group["params"]):
            if parameter.dim() > 1:
                self._watched(parameter).look()

    def _watched(self, parameter: Tensor) -> Watched:
        new = Watched(parameter, parameter.detach().sign())
        return self.weights.setdefault(id(parameter), new)


@contextmanager
def watched() -> Iterator[Training]:
    """Watch the backward passes and the steps of PyTorch's optimizers in a ``with`` block."""
    training = Training()

    def before(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        training.look(optimizer)

    def after(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        training.steps += 1
        training.look(optimizer)

    run_backward = getattr(torch.autograd, _ENGINE)

    def counted(*args: Any, **options: Any) -> Any:
        training.passes += 1
        return run_backward(*args, **options)

    handles = before_each_step(before), after_each_step(after)
    setattr(torch.autograd, _ENGINE, counted)
    try:
        yield training
    finally:
        setattr(torch.autograd, _ENGINE, run_backward)
        for handle in handles:
            handle.remove()
