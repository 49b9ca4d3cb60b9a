"""The backward of tiled attention as a Function of its own, for it has a derivative too."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.attention.arguments import How
from autograd_course.functions.attention.backward_tiles import backward_tiles
from autograd_course.functions.attention.second_order_tiles import second_order_tiles
from autograd_course.functions.attention.tiles import Grid, Observer, shown
from autograd_course.functions.attention.whole import gradients

Grads = tuple[Tensor | None, ...]


class TiledAttentionBackward(torch.autograd.Function):
    """The gradients of tiled attention, by columns of tiles, and their derivative.

    Forward: ``P = exp(S - L)``, ``D = rowsum(dO ∘ O) - dL``, ``dP = dO Vᵀ``,
    ``dS = P ∘ (dP - D)``; ``dQ = scale · dS K``, ``dK = scale · dSᵀ Q``, ``dV = Pᵀ dO``, and the
    mask's gradient is ``dS``, summed where the mask broadcasts.

    Backward, where ``A``, ``B``, ``C`` and ``T`` arrive for ``dQ``, ``dK``, ``dV`` and the mask's
    gradient. ``O`` and ``L`` count as inputs; then no term needs a whole row before the next can be
    taken, and one pass over the tiles does:

    ``W = scale · (A Kᵀ + Q Bᵀ) + T``, ``X = W ∘ P``, ``Y = P ∘ (W ∘ (dP - D) + dO Cᵀ)``, and for

    - ``Q``: ``scale · (Y K + dS B)``; ``K``: ``scale · (Yᵀ Q + dSᵀ A)``; ``V``: ``Xᵀ dO``;
    - the mask: ``Y``; ``O``: ``-rowsum X ∘ dO``; ``L``: ``-rowsum Y``;
    - ``dO``: ``X V + P C - rowsum X ∘ O``; ``dL``: ``rowsum X``.

    What arrives so for ``O`` and ``L`` goes on through the Function that made them, which adds the
    rest of the second derivative. With dropout, ``dO Vᵀ``, ``dO Cᵀ``, ``P`` in ``Pᵀ dO`` and
    ``P C``, and ``X`` in ``X V`` and ``Xᵀ dO`` have the factor ``Z'``.

    A third derivative differentiates plain operations instead, and keeps what they make.

    Shapes, dtypes and errors are those of ``TiledAttention``. Source: taken by hand; the tests
    compare it with differences and with autograd's derivative of ``ScaledDotProductAttention``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        out: Tensor,
        lse: Tensor,
        grad_out: Tensor,
        grad_lse: Tensor,
        how: How,
        needs: Sequence[bool],
        observer: Observer | None = None,
    ) -> Grads:
        """Return the gradients of q, k, v and mask, None where ``needs`` says no."""
        ctx.how, ctx.needs = how, needs
        ctx.save_for_backward(q, k, v, mask, out, lse, grad_out, grad_lse)
        grid = Grid(q, k, mask, how)
        queries = given_by_query(grid, q, out, lse, grad_out, grad_lse)
        wanted = zip((q, k, v, mask), needs, strict=True)
        grads = [zeros(x, lse.dtype) if x is not None and need else None for x, need in wanted]
        found = grid.rows(grads[0]), grid.columns(grads[1]), grid.columns(grads[2])
        keys = grid.columns(k), grid.columns(v)
        shown(backward_tiles(grid, keys, queries, found, grid.tables(grads[3])), observer)
        return alike(grads, (q, k, v, mask))

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Grads:
        """Return what arrives at the tensors that backward was computed from."""
        if torch.is_grad_enabled():
            found = _plainly(ctx.saved_tensors, ctx.how, ctx.needs, cotangents)
        else:
            found = _by_tiles(ctx.saved_tensors, ctx.how, cotangents)
        return *found, None, None, None


def given_by_query(
    grid: Grid, q: Tensor, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return what a row of tiles needs in backward: ``Q``, ``dO / (1 - p)``, ``L`` and ``D``."""
    grad = grad_out.to(lse.dtype)
    delta = (grad * out).sum(-1) - grad_lse
    scaled = grad * grid.how.kept if grid.how.dropout_p else grad
    return grid.rows(q), grid.rows(scaled), grid.numbers(lse), grid.numbers(delta)


def zeros(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return room for a gradient; not ``zeros_like``, which would keep the strides of ``x``."""
    return torch.zeros(x.shape, dtype=dtype, device=x.device)


def alike(grads: Sequence[Tensor | None], inputs: Sequence[Tensor | None]) -> Grads:
    """Return the gradients in the dtypes of their inputs."""
    return tuple(
        None if grad is None or x is None else grad.to(x.dtype)
        for grad, x in zip(grads, inputs, strict=True)
    )


def _by_tiles(saved: Sequence[Any], how: How, arrived: Sequence[Tensor | None]) -> Grads:
    q, k, v, mask, out, lse, grad_out, grad_lse = saved
    grid, dtype = Grid(q, k, mask, how), lse.dtype
    given = zip((q, k, v), arrived[:3], strict=True)
    for_q, for_k, for_v = (torch.zeros_like(x) if to is None else to for x, to in given)
    to_q, to_grad, x, y, to_k, to_v = (zeros(t, dtype) for t in (q, out, lse, lse, k, v))
    to_mask = None if mask is None or mask.dtype == torch.bool else zeros(mask, dtype)
    second_order_tiles(
        grid,
        (*given_by_query(grid, q, out, lse, grad_out, grad_lse), grid.rows(for_q)),
        tuple(map(grid.columns, (k, v, for_k, for_v))),
        (grid.tables(arrived[3]), grid.tables(to_mask)),
        (grid.rows(to_q), grid.rows(to_grad), grid.numbers(x), grid.numbers(y)),
        (grid.columns(to_k), grid.columns(to_v)),
    )
    to_grad, to_out = how.kept * to_grad - x[..., None] * out, -x[..., None] * grad_out
    return alike((to_q, to_k, to_v, to_mask, to_out, -y, to_grad, x), saved)


def _plainly(
    saved: Sequence[Any], how: How, needs: Sequence[bool], arrived: Sequence[Tensor | None]
) -> Grads:
    """Differentiate the plain operations, in a graph that can be differentiated again."""
    # Aliases: gradients are wanted for each of the eight, not through O and L back to q.
    cut: list[Any] = [x if x is None else x.view_as(x) for x in saved]
    grads = gradients(cut[:6], cut[6:], how, needs)
    wanted = [x for x in cut if x is not None and x.requires_grad]
    pairs = zip(grads, arrived, strict=True)
    made, to = zip(*((y, c) for y, c in pairs if y is not None), strict=True)
    found = iter(torch.autograd.grad(made, wanted, to, create_graph=True, allow_unused=True))
    return tuple(next(found) if x is not None and x.requires_grad else None for x in cut)
