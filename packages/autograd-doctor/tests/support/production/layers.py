"""Layers: an in-place activation, a recurrent cell and dropout."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from production.operation import Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


class LeakyReLUInPlace(Function):
    """A leaky ReLU that overwrites its input. The output has the same sign as the input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float = 0.1) -> Tensor:
        F.leaky_relu_(x, slope)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        ctx.slope = slope
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        (y,) = ctx.saved_tensors
        return torch.where(y > 0, g, ctx.slope * g), None


def not_marked_dirty(ctx: Any, x: Tensor, slope: float = 0.1) -> Tensor:
    F.leaky_relu_(x, slope)
    ctx.save_for_backward(x)
    ctx.slope = slope
    return x.clone()


def a_copy_returned(ctx: Any, x: Tensor, slope: float = 0.1) -> Tensor:
    return LeakyReLUInPlace.forward(ctx, x, slope).clone()


def nothing_leaks_back(ctx: Any, g: Tensor) -> Grads:
    (y,) = ctx.saved_tensors
    return g * (y > 0), None


class RecurrentCell(Function):
    """``tanh(x Wᵀ + h Uᵀ + b)`` with an optional bias. It saves its output for the tanh."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, h: Tensor, w: Tensor, u: Tensor, bias: Tensor | None
    ) -> Tensor:
        total = x @ w.mT + h @ u.mT
        new = torch.tanh(total if bias is None else total + bias)
        ctx.save_for_backward(x, h, w, u, new)
        return new

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        x, h, w, u, new = ctx.saved_tensors
        inner = g * (1 - new**2)
        needs_x, needs_h, needs_w, needs_u, needs_bias = ctx.needs_input_grad
        return (
            inner @ w if needs_x else None,
            inner @ u if needs_h else None,
            inner.mT @ x if needs_w else None,
            inner.mT @ h if needs_u else None,
            inner.sum(0) if needs_bias else None,
        )


def state_kept_on_ctx(
    ctx: Any, x: Tensor, h: Tensor, w: Tensor, u: Tensor, bias: Tensor | None
) -> Tensor:
    ctx.h = h
    return RecurrentCell.forward(ctx, x, h, w, u, bias)


def slope_of_the_old_state(ctx: Any, g: Tensor) -> Grads:
    x, h, w, u, _ = ctx.saved_tensors
    inner = g * (1 - h**2)
    return inner @ w, inner @ u, inner.mT @ x, inner.mT @ h, inner.sum(0)


def recurrent_weight_turned(ctx: Any, g: Tensor) -> Grads:
    x, h, w, u, new = ctx.saved_tensors
    inner = g * (1 - new**2)
    return inner @ w, inner @ u, inner.mT @ x, h.mT @ inner, inner.sum(0)


def state_and_input_exchanged(ctx: Any, g: Tensor) -> Grads:
    grad_x, grad_h, *rest = RecurrentCell.backward(ctx, g)
    return grad_h, grad_x, *rest


def packed(mask: Tensor) -> Tensor:
    """Return a mask packed into one byte for every eight elements."""
    flat = F.pad(mask.flatten(), (0, -mask.numel() % 8)).view(-1, 8).to(torch.uint8)
    return (flat << torch.arange(8, device=mask.device)).sum(1, dtype=torch.uint8)


def unpacked(bits: Tensor, shape: torch.Size) -> Tensor:
    flat = (bits[:, None] >> torch.arange(8, device=bits.device)) & 1
    return flat.flatten()[: shape.numel()].view(shape).bool()


class PackedDropout(Function):
    """Dropout that saves one bit per element."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        keep = torch.rand(x.shape, device=x.device) >= p
        ctx.save_for_backward(packed(keep))
        ctx.shape, ctx.p = x.shape, p
        return x * keep / (1 - p)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        (bits,) = ctx.saved_tensors
        return g * unpacked(bits, ctx.shape) / (1 - ctx.p), None


def kept_values_not_scaled(ctx: Any, g: Tensor) -> Grads:
    (bits,) = ctx.saved_tensors
    return g * unpacked(bits, ctx.shape), None


def mask_drawn_again(ctx: Any, g: Tensor) -> Grads:
    return g * (torch.rand(g.shape, device=g.device) >= ctx.p) / (1 - ctx.p), None


_CELL = (normal(2, 3), normal(2, 3, seed=1), normal(3, 3, seed=2), normal(3, 3, seed=3))


OPERATIONS = (
    Operation(
        "leaky ReLU in place",
        LeakyReLUInPlace,
        (normal(3, 4), 0.2),
        F.leaky_relu,
        (
            Mutant("mutates-input", methods={"forward": not_marked_dirty}),
            Mutant("wrong-mark-dirty", methods={"forward": a_copy_returned}),
            Mutant("wrong-region", nothing_leaks_back),
        ),
    ),
    Operation(
        "recurrent cell",
        RecurrentCell,
        (*_CELL, normal(3, seed=4)),
        lambda x, h, w, u, bias: torch.tanh(F.linear(x, w, bias) + F.linear(h, u)),
        (
            Mutant("gradient-mismatch", slope_of_the_old_state),
            Mutant("tensor-on-ctx", methods={"forward": state_kept_on_ctx}),
            Mutant("transposed-gradient", recurrent_weight_turned),
            Mutant("swapped-gradients", state_and_input_exchanged),
        ),
    ),
    Operation(
        "recurrent cell without a bias",
        RecurrentCell,
        (*_CELL, None),
        lambda x, h, w, u, bias: torch.tanh(F.linear(x, w) + F.linear(h, u)),
        (),
    ),
    Operation(
        "dropout with a packed mask",
        PackedDropout,
        (normal(3, 5), 0.25),
        lambda x, p: x * (torch.rand(x.shape) >= p) / (1 - p),
        (
            Mutant("constant-factor", kept_values_not_scaled),
            Mutant("rng-not-restored", mask_drawn_again),
        ),
    ),
)
