"""Sorting with PyTorch and with NumPy, and the k largest elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from production.operation import Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


class Sort(Function):
    """A sort along the last axis, with the permutation as a second output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
        values, order = x.sort(descending=descending)
        ctx.mark_non_differentiable(order)
        ctx.save_for_backward(order)
        return values, order

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Tensor) -> Grads:
        (order,) = ctx.saved_tensors
        return torch.zeros_like(g).scatter(-1, order, g), None


def same_permutation_again(ctx: Any, g: Tensor, _: Tensor) -> Grads:
    (order,) = ctx.saved_tensors
    return g.gather(-1, order), None


class TopK(Function):
    """The k largest elements along the last axis, and their positions."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, k: int) -> tuple[Tensor, Tensor]:
        values, places = x.topk(k)
        ctx.mark_non_differentiable(places)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(places)
        ctx.shape = x.shape
        return values, places

    @staticmethod
    def backward(ctx: Any, g: Tensor | None, _: Tensor | None) -> Grads:
        if g is None:
            return None, None
        (places,) = ctx.saved_tensors
        return g.new_zeros(ctx.shape).scatter(-1, places, g), None


def into_the_first_k(ctx: Any, g: Tensor, _: Tensor | None) -> Grads:
    missing = ctx.shape[-1] - g.shape[-1]
    return torch.nn.functional.pad(g, (0, missing)), None


class NumpySort(Function):
    """A sort along any axis with NumPy. It saves the permutations as tensors."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, axis: int) -> Tensor:
        values = x.detach().cpu().numpy()
        order = np.argsort(values, axis=axis, kind="stable")
        order_back = torch.from_numpy(np.argsort(order, axis=axis)).to(x.device)
        ctx.save_for_backward(order_back)
        ctx.axis = axis
        return torch.from_numpy(np.take_along_axis(values, order, axis)).to(x.device)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        (order_back,) = ctx.saved_tensors
        return g.gather(ctx.axis, order_back), None


def grad_output_not_reordered(ctx: Any, g: Tensor) -> Grads:
    return g.clone(), None


OPERATIONS = (
    Operation(
        "sort",
        Sort,
        (normal(3, 5),),
        lambda x: tuple(x.sort()),
        (Mutant("permuted-gradient", same_permutation_again),),
    ),
    Operation(
        "the k largest",
        TopK,
        (normal(3, 5), 2),
        lambda x, k: tuple(x.topk(k)),
        (Mutant("permuted-gradient", into_the_first_k),),
    ),
    Operation(
        "sort by NumPy",
        NumpySort,
        (normal(3, 5), 0),
        lambda x, axis: x.sort(axis).values,
        (Mutant("permuted-gradient", grad_output_not_reordered),),
    ),
)
