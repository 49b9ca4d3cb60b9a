"""Selecting and scattering: embedding, gather, scatter-mean and segment sum."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from production.operation import Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


class Embedding(Function):
    """Selects rows of a table. A padding index selects zeros and gives no gradient."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, padding: int = -1) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape, ctx.padding = table.shape, padding
        return table[index].masked_fill((index == padding)[..., None], 0)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        (index,) = ctx.saved_tensors
        g = g.masked_fill((index == ctx.padding)[..., None], 0)
        rows = g.reshape(-1, g.shape[-1])
        return g.new_zeros(ctx.shape).index_add(0, index.flatten(), rows), None, None


def rows_assigned(ctx: Any, g: Tensor) -> Grads:
    (index,) = ctx.saved_tensors
    grad = g.new_zeros(ctx.shape)
    grad[index] = g.masked_fill((index == ctx.padding)[..., None], 0)
    return grad, None, None


def padding_trains_too(ctx: Any, g: Tensor) -> Grads:
    (index,) = ctx.saved_tensors
    rows = g.reshape(-1, g.shape[-1])
    return g.new_zeros(ctx.shape).index_add(0, index.flatten(), rows), None, None


def zeros_of_the_default_dtype(ctx: Any, g: Tensor) -> Grads:
    (index,) = ctx.saved_tensors
    grad = torch.zeros(ctx.shape, device=g.device)
    return grad.index_add(0, index.flatten(), g.reshape(-1, g.shape[-1])), None, None


class ScatterMean(Function):
    """The mean of the rows with the same index. An index without rows gets zeros."""

    @staticmethod
    def forward(x: Tensor, index: Tensor, size: int) -> Tensor:
        total = x.new_zeros(size, *x.shape[1:]).index_add(0, index, x)
        return total / occurrences(index, size)[:, None]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, index, ctx.size = inputs
        ctx.save_for_backward(index)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        (index,) = ctx.saved_tensors
        return (g / occurrences(index, ctx.size)[:, None])[index], None, None


def occurrences(index: Tensor, size: int) -> Tensor:
    return index.bincount(minlength=size).clamp(min=1)


def count_forgotten(ctx: Any, g: Tensor) -> Grads:
    (index,) = ctx.saved_tensors
    return g[index], None, None


class Gather(Function):
    """``x.gather(dim, index)``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.shape, ctx.dim = x.shape, dim
        return x.gather(dim, index)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        (index,) = ctx.saved_tensors
        return g.new_zeros(ctx.shape).scatter_add(ctx.dim, index, g), None, None


def scattered_not_added(ctx: Any, g: Tensor) -> Grads:
    (index,) = ctx.saved_tensors
    return g.new_zeros(ctx.shape).scatter(ctx.dim, index, g), None, None


class SegmentSum(Function):
    """Sums over segments of consecutive rows with the given lengths."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, lengths: tuple[int, ...]) -> Tensor:
        ctx.lengths = lengths
        return torch.stack([rows.sum(0) for rows in x.split(lengths)])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        return g.repeat_interleave(torch.tensor(ctx.lengths, device=g.device), 0), None


def last_row_left_out(ctx: Any, g: Tensor) -> Grads:
    grad, _ = SegmentSum.backward(ctx, g)
    return torch.cat([grad[:-1], torch.zeros_like(grad[:1])]), None


def embed(table: Tensor, index: Tensor, padding: int) -> Tensor:
    keep = torch.ones(len(table), 1, dtype=table.dtype)
    keep[padding] = 0
    return torch.nn.functional.embedding(index, table * keep)


def scatter_mean(x: Tensor, index: Tensor, size: int) -> Tensor:
    return x.new_zeros(size, x.shape[1]).index_reduce(0, index, x, "mean", include_self=False)


_WORDS = torch.tensor([[0, 3, 1, 3], [5, 2, 2, 3]])


OPERATIONS = (
    Operation(
        "embedding with padding",
        Embedding,
        (normal(6, 3), _WORDS, 2),
        embed,
        (
            Mutant("duplicate-index", rows_assigned),
            Mutant("wrong-region", padding_trains_too),
            Mutant("gradient-dtype", zeros_of_the_default_dtype),
        ),
    ),
    Operation(
        "scatter-mean",
        ScatterMean,
        (normal(6, 2), torch.tensor([0, 3, 1, 3, 3, 0]), 5),
        scatter_mean,
        (Mutant("duplicate-index", count_forgotten),),
    ),
    Operation(
        "gather",
        Gather,
        (normal(3, 5), 1, torch.tensor([[0, 0, 4], [1, 2, 3], [3, 1, 3]])),
        torch.gather,
        (Mutant("duplicate-index", scattered_not_added),),
    ),
    Operation(
        "segment sum",
        SegmentSum,
        (normal(6, 2), (1, 3, 2)),
        lambda x, lengths: torch.segment_reduce(x, "sum", lengths=torch.tensor(lengths)),
        (Mutant("off-by-one", last_row_left_out),),
    ),
)
