"""Memory layouts, batches, axes, empty and 0-dim tensors, frozen inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from cases.first_order import center, soft, soft_backward
from cases.making import IDX, TABLE, Case, W, X, Y, draw, raw, saving

SEQUENCE = draw(2, 3, 4, seed=6)
BIAS = draw(5, seed=7)
MASK = torch.ones(4, 4).triu(1).bool()  # the first row has one visible element
MASK[-1, -1] = True
ONE_ROW = draw(1, 4, seed=8)


def masked(x: Tensor, mask: Tensor) -> Tensor:
    return soft(x.masked_fill(mask, -torch.inf)).nan_to_num(0.0)


def masked_backward(x: Tensor, mask: Tensor, g: Tensor) -> tuple[Tensor, None]:
    p = masked(x, mask)
    return p * (g - torch.einsum("...k,...k->...", p, g).unsqueeze(-1)), None


def in_memory_order(t: Tensor) -> Tensor:
    """Read a tensor in memory order, as a kernel does if it takes a pointer and a length."""
    return torch.from_numpy(t.detach().numpy().ravel("K").copy()).reshape(t.shape)


def exp_outside(x: Tensor) -> Tensor:
    return torch.from_numpy(np.exp(x.detach().numpy()))


def columns_of(w: Tensor) -> Tensor:
    """Return the transpose for a known memory layout."""
    return torch.as_strided(w, (w.shape[1], w.shape[0]), (1, w.shape[1]))


def rows_of(g: Tensor, width: int) -> Tensor:
    return g.reshape(-1, width)


def linear_with(rows: Any) -> type[Function]:
    """Return a linear map of the last axis whose backward flattens the other axes with ``rows``."""

    def backward(x: Tensor, w: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        return g @ w, rows(g, w.shape[0]).T @ x.reshape(-1, w.shape[1])

    return saving(lambda x, w: x @ w.T, backward)


def bias_with(b: Any) -> type[Function]:
    """Return ``x Wᵀ + b`` with the given backward for the bias."""
    return saving(lambda x, w, c: x @ w.T + c, lambda x, w, c, g: (g @ w, g.T @ x, b(x, g)))


def along(d: int | None) -> type[Function]:
    """Return a softmax along ``dim`` whose backward sums along ``d`` (by default, ``dim``)."""

    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        y = torch.softmax(x, dim)
        ctx.save_for_backward(y)
        ctx.dim = dim if d is None else d
        return y

    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (y,) = ctx.saved_tensors
        return y * (g - (g * y).sum(ctx.dim, keepdim=True)), None

    return raw(forward, backward)


def averaged(unsqueeze: Any) -> type[Function]:
    """Return a mean along ``axis`` whose backward restores the axis with a function."""

    def forward(ctx: Any, x: Tensor, axis: int) -> Tensor:
        ctx.shape, ctx.axis = x.shape, axis
        return x.mean(axis)

    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return unsqueeze(g, ctx.axis).expand(ctx.shape) / ctx.shape[ctx.axis], None

    return raw(forward, backward)


def saving_only(needed: Any) -> type[Function]:
    """Return a product that saves only some of its factors. ``needed(*flags)`` says which ones."""

    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        keep_x, keep_y = needed(*ctx.needs_input_grad)
        ctx.save_for_backward(x if keep_x else None, y if keep_y else None)
        return x * y

    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, y = ctx.saved_tensors
        needs_x, needs_y = ctx.needs_input_grad
        return g * y if needs_x else None, g * x if needs_y else None

    return raw(forward, backward)


def weight_under(flag: int) -> type[Function]:
    """Return a matrix product that computes the weight's gradient if one of the flags is set."""

    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x @ w.T

    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, w = ctx.saved_tensors
        needs = ctx.needs_input_grad
        return g @ w if needs[0] else None, g.T @ x if needs[flag] else None

    return raw(forward, backward)


class MaskIfNeeded(Function):
    """A relu that creates its mask only if backward needs it, but also uses it in forward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        if ctx.needs_input_grad[0]:
            mask = x > 0
            ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * ctx.saved_tensors[0]


class Dropout(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        mask = torch.rand_like(x) >= p
        ctx.save_for_backward(mask)
        ctx.scale = 1 / (1 - p)
        return x * mask * ctx.scale

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return g * ctx.saved_tensors[0] * ctx.scale, None


class Maximum(Function):
    """The largest element along ``dim``. Among equal elements, the library chooses one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        y, index = x.max(dim)
        ctx.save_for_backward(index)
        ctx.dim, ctx.shape = dim, x.shape
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        index = ctx.saved_tensors[0].unsqueeze(ctx.dim)
        return g.new_zeros(ctx.shape).scatter(ctx.dim, index, g.unsqueeze(ctx.dim)), None


class Doubled(Function):
    """Doubles its input in place and marks it dirty."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return 2 * g


Twice = saving(lambda x: 2 * x, lambda x, g: 2 * g)
Product = saving(torch.mul, lambda x, y, g: (g * y, g * x))


def scaled_softmax(x: Tensor, w: Tensor, dim: int) -> Tensor:
    """Return a softmax along ``dim``, multiplied by a weight for the last axis."""
    return torch.softmax(x, dim) * w


def force(x: Tensor, w: Tensor) -> Tensor:
    """Return the derivative of an energy with respect to ``x``, which forward computes with
    autograd.
    """
    energy = Product.apply(x, w).pow(2).sum()
    return torch.autograd.grad(energy, x, create_graph=True)[0]


WITNESSES = [
    Case("grad-output-layout", "rows by view",
         linear_with(lambda g, width: g.view(-1, width)), (SEQUENCE, W)),
    Case("grad-output-layout", "a kernel that reads memory as it lies",
         saving(exp_outside, lambda x, g: exp_outside(x) * in_memory_order(g)), (X,)),
    Case("grad-output-layout", "a transpose by strides",
         saving(lambda x: x.T * 2, lambda x, g: 2 * columns_of(g)), (X,)),
    Case("input-layout", "a forward that reads memory as it lies",
         saving(lambda x: in_memory_order(x).sigmoid(),
                lambda x, g: g * x.sigmoid() * (1 - x.sigmoid())), (X,)),
    Case("input-layout", "a weight transposed by strides",
         saving(lambda x, w: x @ columns_of(w), lambda x, w, g: (g @ w, g.T @ x)), (X, W)),
    Case("input-layout", "only backward takes the input for dense",
         saving(exp_outside, lambda x, g: g * in_memory_order(x).exp()), (X,)),
    Case("input-layout", "a view that forward cannot make",
         saving(lambda x, w: (x.view(-1, 4) @ w.T).reshape(2, 3, 5),
                lambda x, w, g: (g @ w, g.reshape(-1, 5).T @ x.reshape(-1, 4))), (SEQUENCE, W)),
    Case("batch-dimension", "the weight learns from the first row only",
         saving(lambda x, w: x @ w.T, lambda x, w, g: (g @ w, torch.outer(g[0], x[0]))), (X, W)),
    Case("batch-dimension", "a softmax whose backward sums over the batch as well",
         saving(soft, lambda x, g: soft(x) * (g - (g * soft(x)).sum())), (X,)),
    Case("batch-dimension", "a weight that is right for a batch of 1",
         saving(lambda x, w: x @ w.T, lambda x, w, g: (g @ w, torch.outer(g[0], x[0]))),
         (ONE_ROW, W)),
    Case("batch-dimension", "a bias that is right for a batch of 1",
         bias_with(lambda x, g: g[0]), (ONE_ROW, W, BIAS)),
    Case("batch-dimension", "squeeze drops a batch of 1",
         saving(lambda x: x.sum(-1, keepdim=True),
                lambda x, g: g.squeeze()[:, None].expand_as(x)), (X,)),
    Case("dim-argument", "the last axis written into backward, called along the last",
         along(-1), (X, -1)),
    Case("dim-argument", "the last axis written into backward, called along the first",
         along(-1), (X, 0)),
    Case("dim-argument", "a mean's axis put back at the end",
         averaged(lambda g, axis: g.unsqueeze(-1)), (SEQUENCE, 2)),
    Case("dim-argument", "a mean's axis put back wrongly when counted from the back",
         averaged(lambda g, axis: g[(slice(None),) * axis + (None,)]), (SEQUENCE, 1)),
    Case("zero-size", "a loop over the batch, stacked",
         saving(soft, lambda x, g: torch.stack(list(map(soft_backward, x, g)))), (X,)),
    Case("zero-size", "a mean times the length",
         bias_with(lambda x, g: g.mean(0) * len(g)), (X, W, BIAS)),
    Case("zero-size", "a shape left to be inferred",
         saving(lambda x, w: x @ w.T,
                lambda x, w, g: (g @ w, g.reshape(len(x), -1).T @ x)), (X, W)),
    Case("zero-dim", "a sum over an axis that need not be there",
         saving(torch.exp, lambda x, g: torch.einsum("...i,...i->...i", x.exp(), g)), (X,)),
    Case("zero-dim", "the shape's last entry",
         saving(lambda x, y: x * y,
                lambda x, y, g: (g * y, (g * x).reshape(-1, x.shape[-1]).reshape(x.shape))), (X, Y)),
    Case("frozen-input", "each factor saved under its own flag, not the other's",
         saving_only(lambda needs_x, needs_y: (needs_x, needs_y)), (X, Y)),
    Case("frozen-input", "the weight's gradient under the input's flag", weight_under(0), (X, W)),
    Case("frozen-input", "nothing to multiply by without a gradient", MaskIfNeeded, (X,)),
]  # fmt: skip

LOOKALIKES = [
    Case("grad-output-layout", "rows by reshape", linear_with(rows_of), (SEQUENCE, W)),
    Case("grad-output-layout", "a kernel that is given dense memory",
         saving(exp_outside, lambda x, g: exp_outside(x) * in_memory_order(g.contiguous())), (X,)),
    Case("input-layout", "a kernel that is given dense memory",
         saving(lambda x: in_memory_order(x.contiguous()).sigmoid(),
                lambda x, g: g * x.sigmoid() * (1 - x.sigmoid())), (X,)),
    Case("input-layout", "another layout rounds otherwise, in float32",
         saving(lambda x: (x.float() * (1 + 3e-6 * x.is_contiguous())).to(x.dtype),
                lambda x, g: g.clone()), (X,)),
    Case("input-layout", "a mask drawn in memory's order", Dropout, (X, 0.4)),
    Case("input-layout", "a maximum among equals", Maximum, (torch.zeros(40, 33), 1)),
    Case("input-layout", "in place, and marked dirty", Doubled, (X,)),
    Case("batch-dimension", "a mean over the batch, of equal rows",
         saving(lambda x: x - x.mean(0), lambda x, g: g - g.mean(0)), (torch.ones(3, 4),)),
    Case("batch-dimension", "an embedding, one index used twice",
         saving(lambda t, i: t[i], lambda t, i, g: (torch.zeros_like(t).index_add(0, i, g), None)),
         (TABLE, IDX)),
    Case("batch-dimension", "as many rows as weights, which are no batch",
         saving(lambda x, w: x @ w.T, lambda x, w, g: (g @ w, g.T @ x)), (X, Y)),
    Case("batch-dimension", "a declared surrogate whose scale has the batch in it",
         saving(lambda x: torch.round(3 * soft(x)), lambda x, g: g / len(x)), (X,),
         {"surrogate": lambda x: x / len(x)}),
    Case("dim-argument", "a softmax along any axis", along(None), (X, 0)),
    Case("dim-argument", "a mean along any axis", averaged(torch.unsqueeze), (SEQUENCE, 1)),
    Case("dim-argument", "a weight that belongs to the last axis",
         lambda x, w, dim: Twice.apply(scaled_softmax(x, w, dim)), (draw(4, 4), draw(4, seed=1), -1)),
    Case("dim-argument", "a maximum among equals", Maximum, (torch.zeros(6, 6), 1)),
    Case("zero-size", "a mean that forward takes over nothing",
         saving(center, lambda x, g: g - g.mean(-1, keepdim=True)), (X.T.contiguous(),)),
    Case("zero-size", "a sum over no rows", linear_with(rows_of), (X, W)),
    Case("zero-dim", "a softmax, which is not element by element",
         saving(soft, soft_backward), (X,)),
    Case("zero-dim", "a masked softmax, whose first and last elements stand alone",
         saving(masked, masked_backward), (draw(4, 4), MASK)),
    Case("zero-dim", "a cumulative sum, whose first element stands alone",
         saving(lambda x: x.cumsum(-1),
                lambda x, g: torch.stack(list(g.flip(-1).cumsum(-1).flip(-1)))), (X[0],)),
    Case("frozen-input", "each factor saved under the other's flag",
         saving_only(lambda needs_x, needs_y: (needs_y, needs_x)), (X, Y)),
    Case("frozen-input", "a callable that differentiates by its own input", force, (X, Y)),
    Case("frozen-input", "three inputs, one of them fixed by the caller",
         bias_with(lambda x, g: g.sum(0)),
         (X, W.clone().requires_grad_(), BIAS.clone().requires_grad_())),
]  # fmt: skip
