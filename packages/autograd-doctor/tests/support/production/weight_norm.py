"""Weight normalization: a weight as a length times a direction, row by row."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from production.operation import CHEAP, Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


class WeightNorm(Function):
    """A weight as a length times a direction, row by row."""

    @staticmethod
    def forward(ctx: Any, direction: Tensor, length: Tensor) -> Tensor:
        ctx.save_for_backward(direction, length)
        return direction * (length / direction.norm(dim=1))[:, None]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        direction, length = ctx.saved_tensors
        norm = direction.norm(dim=1, keepdim=True)
        unit = direction / norm
        along = (g * unit).sum(1, keepdim=True)
        return (g - unit * along) * length[:, None] / norm, along.squeeze(1)


def direction_normalized_in_place(ctx: Any, g: Tensor) -> Grads:
    direction, length = ctx.saved_tensors
    norm = direction.norm(dim=1, keepdim=True)
    unit = direction.div_(norm)
    along = (g * unit).sum(1, keepdim=True)
    return (g - unit * along) * length[:, None] / norm, along.squeeze(1)


def norm_held_fixed(ctx: Any, g: Tensor) -> Grads:
    direction, length = ctx.saved_tensors
    norm = direction.norm(dim=1, keepdim=True)
    return g * length[:, None] / norm, (g * direction / norm).sum(1)


def unit_norm(direction: Tensor, length: Tensor) -> Tensor:
    return length[:, None] * F.normalize(direction, dim=1)


OPERATIONS = (
    Operation(
        "weight normalization",
        WeightNorm,
        (normal(3, 4), normal(3, seed=1)),
        unit_norm,
        (
            Mutant("missing-dependency", norm_held_fixed),
            Mutant("mutates-saved", direction_normalized_in_place),
        ),
        allowed=CHEAP,
    ),
)
