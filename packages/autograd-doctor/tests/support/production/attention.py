"""Scaled dot-product attention that saves no probabilities, and the rotary embedding before it."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from production.operation import ONCE, Mutant, Operation, normal

Grads = tuple[Tensor | None, ...]


def scores(q: Tensor, k: Tensor, visible: Tensor | None) -> Tensor:
    s = q @ k.mT / math.sqrt(q.shape[-1])
    return s if visible is None else s.masked_fill(~visible, -torch.inf)


class Attention(Function):
    """Attention for ``(heads, rows, width)``. It saves only the row sums of the probabilities."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None = None) -> Tensor:
        s = scores(q, k, visible)
        log_sum = s.logsumexp(-1, keepdim=True)
        out = (s - log_sum).exp() @ v
        ctx.save_for_backward(q, k, v, visible, out, log_sum)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> Grads:
        q, k, v, visible, out, log_sum = ctx.saved_tensors
        needs_q, needs_k, needs_v, *_ = ctx.needs_input_grad
        p = (scores(q, k, visible) - log_sum).exp()
        grad_q = grad_k = None
        if needs_q or needs_k:
            ds = p * (g @ v.mT - (g * out).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
            grad_q, grad_k = ds @ k if needs_q else None, ds.mT @ q if needs_k else None
        return grad_q, grad_k, p.mT @ g if needs_v else None, None


def not_declared_once_differentiable(ctx: Any, g: Tensor) -> Grads:
    undeclared: Any = Attention.backward.__wrapped__
    return undeclared(ctx, g)


def softmax_correction_forgotten(ctx: Any, g: Tensor) -> Grads:
    q, k, v, visible, _, log_sum = ctx.saved_tensors
    p = (scores(q, k, visible) - log_sum).exp()
    ds = p * (g @ v.mT) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ g, None


def scale_forgotten(ctx: Any, g: Tensor) -> Grads:
    q, k, v, visible, out, log_sum = ctx.saved_tensors
    p = (scores(q, k, visible) - log_sum).exp()
    ds = p * (g @ v.mT - (g * out).sum(-1, keepdim=True))
    return ds @ k, ds.mT @ q, p.mT @ g, None


def probabilities_not_transposed(ctx: Any, g: Tensor) -> Grads:
    q, k, v, visible, out, log_sum = ctx.saved_tensors
    p = (scores(q, k, visible) - log_sum).exp()
    ds = p * (g @ v.mT - (g * out).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p @ g, None


def mask_forgotten_in_recomputation(ctx: Any, g: Tensor) -> Grads:
    q, k, v, _, out, log_sum = ctx.saved_tensors
    p = (scores(q, k, None) - log_sum).exp()
    ds = p * (g @ v.mT - (g * out).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
    return ds @ k, ds.mT @ q, p.mT @ g, None


def attend(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False) -> Tensor:
    """Call the Function as a library would, with keywords. The mask is created here."""
    length = q.shape[-2]
    visible = torch.ones(length, length, dtype=torch.bool, device=q.device).tril()
    return Attention.apply(q, k, v, visible if causal else None)


def spelled_out(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    s = torch.bmm(q, k.mT) / math.sqrt(q.shape[-1])
    e = s.masked_fill(~visible, -torch.inf).exp()
    return torch.bmm(e / e.sum(-1, keepdim=True), v)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair of neighbors by its own angle."""
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)


class RotaryEmbedding(Function):
    """A rotation of queries or keys. The transpose is the inverse rotation."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return turned(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Grads:
        cos, sin = ctx.saved_tensors
        return turned(g, cos, -sin), None, None


def turned_on_instead_of_back(ctx: Any, g: Tensor) -> Grads:
    return turned(g, *ctx.saved_tensors), None, None


_QKV = tuple(normal(2, 3, 5, seed=seed) for seed in range(3))
_VISIBLE = torch.tensor([[True, False, True], [True, True, False], [True, True, True]])
_ANGLES = torch.outer(torch.arange(3.0), torch.tensor([1.0, 0.1]))
_TABLES = _ANGLES.cos(), _ANGLES.sin()

OPERATIONS = (
    Operation(
        "attention with a mask",
        Attention,
        (*_QKV, _VISIBLE),
        lambda q, k, v, visible: F.scaled_dot_product_attention(q, k, v, visible),
        (
            Mutant(
                "missing-dependency",
                softmax_correction_forgotten,
                options={"reference": spelled_out},
            ),
            Mutant("constant-factor", scale_forgotten),
            Mutant("silent-double-backward", not_declared_once_differentiable),
            Mutant("transposed-gradient", probabilities_not_transposed),
            Mutant("gradient-mismatch", mask_forgotten_in_recomputation),
        ),
        allowed=ONCE,
    ),
    Operation(
        "attention without a mask",
        attend,
        _QKV,
        F.scaled_dot_product_attention,
        (),
        allowed=ONCE,
    ),
    Operation(
        "rotary embedding",
        RotaryEmbedding,
        (normal(2, 3, 4).requires_grad_(), *_TABLES),
        turned,
        (Mutant("transposed-gradient", turned_on_instead_of_back),),
    ),
)
