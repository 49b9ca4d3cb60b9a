"""Convolution by unfolding, and with torch.nn.grad."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.nn.grad import conv2d_input, conv2d_weight

from production.operation import Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


class Conv1d(Function):
    """A convolution of ``(N, C, L)`` as a matrix product with the windows."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None = None, padding: int = 0
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.padding = padding
        y = torch.einsum("nclk,ock->nol", windows(x, weight, padding), weight)
        return y if bias is None else y + bias[:, None]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, *needs_rest = ctx.needs_input_grad
        grad_x = grad_weight = grad_bias = None
        if needs_x:
            reach = weight.shape[-1] - 1 - ctx.padding
            around = F.pad(g, (reach, reach))
            grad_x = torch.einsum(
                "nolk,ock->ncl", around.unfold(2, weight.shape[-1], 1), weight.flip(-1)
            )
        if needs_weight:
            grad_weight = torch.einsum("nol,nclk->ock", g, windows(x, weight, ctx.padding))
        if any(needs_rest):
            grad_bias = g.sum((0, 2))
        return grad_x, grad_weight, grad_bias, None


def windows(x: Tensor, weight: Tensor, padding: int) -> Tensor:
    return F.pad(x, (padding, padding)).unfold(2, weight.shape[-1], 1)


def kernel_not_flipped(ctx: Any, g: Tensor) -> Grads:
    _, *rest = Conv1d.backward(ctx, g)
    _, weight = ctx.saved_tensors
    reach = weight.shape[-1] - 1 - ctx.padding
    around = F.pad(g, (reach, reach)).unfold(2, weight.shape[-1], 1)
    return torch.einsum("nolk,ock->ncl", around, weight), *rest


def padding_cut_off_one_too_many(ctx: Any, g: Tensor) -> Grads:
    grad_x, *rest = Conv1d.backward(ctx, g)
    return F.pad(grad_x[..., 1:], (1, 0)), *rest


def bias_summed_over_the_batch_only(ctx: Any, g: Tensor) -> Grads:
    grad_x, grad_weight, *_ = Conv1d.backward(ctx, g)
    return grad_x, grad_weight, g.sum(0), None


class Conv2d(Function):
    """A strided convolution whose gradients come from :mod:`torch.nn.grad`."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, stride: int) -> Tensor:
        return F.conv2d(x, weight, stride=stride)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, ctx.stride = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, _ = ctx.needs_input_grad
        grad_x = conv2d_input(x.shape, weight, g, ctx.stride) if needs_x else None
        grad_weight = conv2d_weight(x, weight.shape, g, ctx.stride) if needs_weight else None
        return grad_x, grad_weight, None


def weight_saved_only_if_trained(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, ctx.stride = inputs
    ctx.save_for_backward(x, weight if ctx.needs_input_grad[1] else None)


def both_gradients_always(ctx: Any, g: Tensor) -> Grads:
    x, weight = ctx.saved_tensors
    grad_weight = conv2d_weight(x, weight.shape, g, ctx.stride)
    return conv2d_input(x.shape, weight, g, ctx.stride), grad_weight, None


def no_gradient_for_the_weight(ctx: Any, g: Tensor) -> Grads:
    x, weight = ctx.saved_tensors
    return conv2d_input(x.shape, weight, g, ctx.stride), None, None


_SEQUENCES = (normal(2, 2, 6), normal(3, 2, 3, seed=1), normal(3, seed=2), 1)


_IMAGES = (normal(2, 2, 5, 5), normal(3, 2, 3, 3, seed=1), 2)


OPERATIONS = (
    Operation(
        "convolution by windows",
        Conv1d,
        _SEQUENCES,
        lambda x, weight, bias, padding: F.conv1d(x, weight, bias, padding=padding),
        (
            Mutant("gradient-mismatch", kernel_not_flipped),
            Mutant("off-by-one", padding_cut_off_one_too_many),
            Mutant("gradient-shape", bias_summed_over_the_batch_only),
        ),
    ),
    Operation("convolution without a bias", Conv1d, _SEQUENCES[:2], F.conv1d, ()),
    Operation(
        "strided convolution by torch.nn.grad",
        Conv2d,
        _IMAGES,
        lambda x, weight, stride: F.conv2d(x, weight, stride=stride),
        (
            Mutant("missing-gradient", no_gradient_for_the_weight),
            Mutant("frozen-input", methods={"setup_context": weight_saved_only_if_trained}),
            Mutant("wasted-gradient", both_gradients_always),
        ),
    ),
)
