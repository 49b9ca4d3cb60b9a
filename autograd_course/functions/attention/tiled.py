"""Attention in tiles. Neither pass ever computes the whole score matrix."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.attention.arguments import (
    How,
    finite,
    fitting,
    how,
    normalized,
    wide,
)
from autograd_course.functions.attention.tiles import At, Grid, Observer, Tile, TiledMask, without
from autograd_course.functions.attention.whole import gradients

Tensors = Sequence[Tensor]
Grads = tuple[Tensor | None, ...]
Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


class TiledAttention(torch.autograd.Function):
    """Compute the result of :class:`ScaledDotProductAttention` tile by tile.

    Forward (online softmax): for the queries in a row of tiles, forward keeps the running maximum
    ``m``, the running sum ``l`` and the unnormalized output ``A``. A tile with scores ``S`` updates
    them:

    ``m' = max(m, rowmax S)``, ``r = exp(m - m')``, ``W = exp(S - m')``,
    ``l' = r·l + rowsum W``, ``A' = r·A + W V``.

    After the last tile, ``O = A / l`` and ``L = m + log l``. If the maximum rises, ``r`` rescales
    the earlier sums, so forward recomputes nothing. Backward processes the tiles column by column.
    It recomputes ``P = exp(S - L)`` for each tile and accumulates ``dQ``, ``dK`` and ``dV``.

    With ``causal``, both passes skip the tiles above the diagonal. Apart from inputs, outputs and
    gradients, a call needs memory for only a few tiles, however long the sequence is. The only
    tensors that can be as large as ``S`` are ``mask`` and its gradient. Twice differentiable with
    the same memory: backward calls another Function, :class:`TiledAttentionBackward`, whose own
    backward visits each tile once.

    Args:
        q: The queries. The arguments up to ``seed`` have the same meaning as in
            :class:`ScaledDotProductAttention`.
        k: The keys.
        v: The values.
        mask: A boolean or a floating-point mask.
        causal: Whether query ``i`` attends only to the keys up to ``i``.
        scale: The scaling factor of the scores.
        dropout_p: The probability that dropout sets a weight to 0.
        seed: The random seed for dropout.
        block: The numbers of queries and keys in a tile. They can be larger than the sequence, and
            the last tile can be smaller. If ``block`` is None, the Function chooses the numbers.
        observer: A function that forward and backward call with a :class:`Tile` after each tile.

    Returns:
        ``O`` and the log-sum-exp of each row.

    Raises:
        ValueError: The shapes, dtypes or devices do not match, ``dropout_p`` is not in ``[0, 1)``,
            or ``block`` contains a number below 1.

    Example:
        >>> import torch
        >>> q, k, v = torch.zeros(2, 5, 8), torch.zeros(2, 7, 8), torch.ones(2, 7, 3)
        >>> out, lse = TiledAttention.apply(q, k, v, None, False, None, 0.0, 0, (2, 4))
        >>> out.shape, lse.shape
        (torch.Size([2, 5, 3]), torch.Size([2, 5]))

    Sources: Milakov and Gimelshein 2018 (online softmax); Rabe and Staats 2021 (attention in
    chunks); Dao et al. 2022 and Dao 2023 (FlashAttention).
    """

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        scale: float | None = None,
        dropout_p: float = 0.0,
        seed: int = 0,
        block: tuple[int, int] | None = None,
        observer: Observer | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return ``O`` and the log-sum-exp of each row, and save both with the inputs."""
        fitting(q, k, v, mask)
        ctx.how, ctx.observer = how(q, causal, scale, dropout_p, seed, block), observer
        grid = Grid(q, k, mask, ctx.how)
        out = q.new_zeros(*q.shape[:-1], v.shape[-1])
        lse = q.new_full(q.shape[:-1], -math.inf, dtype=wide(q.dtype))
        inputs = grid.rows(q), grid.columns(k), grid.columns(v)
        forward_tiles(grid, *inputs, grid.rows(out), grid.numbers(lse), observer)
        ctx.save_for_backward(q, k, v, mask, out, lse)
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor, grad_lse: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of ``q``, ``k``, ``v`` and an additive ``mask``."""
        call: Any = TiledAttentionBackward.apply
        found = call(
            *ctx.saved_tensors, grad_out, grad_lse, ctx.how, ctx.needs_input_grad[:4], ctx.observer
        )
        return *found, *([None] * (len(ctx.needs_input_grad) - 4))


def forward_tiles(
    grid: Grid,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    observer: Observer | None,
) -> None:
    """Write ``O`` and ``L`` for every row of tiles, and pass each tile to the observer.

    At the start, ``out`` contains zeros and ``lse`` contains ``-∞``. Rows without keys keep these
    values.
    """
    buffers = grid.buffers(observer, beside_weights=0)
    for row in grid.places.by_rows():
        here = row[0].of_query
        (q_i,) = grid.cut(here, q)
        high = q_i.new_full((*q_i.shape[:-1], 1), -math.inf)
        total, mixed = torch.zeros_like(high), q_i.new_zeros(*q_i.shape[:-1], v.shape[-1])
        for at in row:
            k_j, v_j = grid.cut(at.of_key, k, v)
            scores, weights = grid.shaped(buffers, at)
            grid.scores(q_i, k_j, at, out=scores)
            before, high = high, torch.maximum(high, scores.amax(-1, keepdim=True))
            shift = finite(high)
            rescale = torch.exp(before - shift)
            torch.sub(scores, shift, out=weights).exp_()
            total.mul_(rescale).add_(weights.sum(-1, keepdim=True))
            mixed.mul_(rescale).baddbmm_(without(weights, grid.gone(at)), v_j)
            if observer is not None:
                live = {"q": q_i, "k": k_j, "v": v_j, "scores": scores, "weights": weights}
                live |= {"rescale": rescale, "max": high, "sum": total, "out": mixed}
                observer(Tile(at.row, at.column, live))
        out[here] = normalized(mixed, total).mul_(grid.how.kept)
        lse[here] = finite(high) + total.log()


class TiledAttentionBackward(torch.autograd.Function):
    """Compute the gradients of tiled attention, and the derivatives of these gradients.

    Forward: ``P = exp(S - L)``, ``D = rowsum(dO ∘ O) - dL``, ``dP = dO Vᵀ``, ``dS = P ∘ (dP - D)``;
    ``dQ = scale · dS K``, ``dK = scale · dSᵀ Q``, ``dV = Pᵀ dO``. The gradient of the mask is
    ``dS``, summed where the mask broadcasts.

    Backward gets the gradients ``A``, ``B``, ``C`` and ``T`` with respect to ``dQ``, ``dK``, ``dV``
    and the mask's gradient. It treats ``O`` and ``L`` as inputs. Therefore, no term has to wait for
    the sum over a whole row, and one pass over the tiles is enough. With

    ``W = scale · (A Kᵀ + Q Bᵀ) + T``, ``X = W ∘ P``, ``Y = P ∘ (W ∘ (dP - D) + dO Cᵀ)``, the
    gradients are

    - ``scale · (Y K + dS B)`` for ``Q``, ``scale · (Yᵀ Q + dSᵀ A)`` for ``K``, ``Xᵀ dO`` for ``V``;
    - ``Y`` for the mask, ``-rowsum X ∘ dO`` for ``O``, ``-rowsum Y`` for ``L``;
    - ``X V + P C - rowsum X ∘ O`` for ``dO``, ``rowsum X`` for ``dL``.

    Autograd passes the gradients of ``O`` and ``L`` on to :class:`TiledAttention`, whose backward
    adds the rest of the second derivative. With dropout, these factors are multiplied by ``Z'``:
    ``dO Vᵀ``, ``dO Cᵀ``, the ``P`` in ``Pᵀ dO`` and ``P C``, and the ``X`` in ``X V`` and
    ``Xᵀ dO``.

    For a third derivative, backward uses plain PyTorch operations instead. Autograd then keeps the
    intermediate results of these operations in memory.

    Shapes, dtypes and errors are the same as in ``TiledAttention``. The formulas were derived by
    hand. The tests compare them with finite differences and with the derivative that autograd
    computes for ``ScaledDotProductAttention``.
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
        """Return the gradients of q, k, v and mask, with None for gradients that are not needed."""
        ctx.how, ctx.needs = how, needs
        ctx.save_for_backward(q, k, v, mask, out, lse, grad_out, grad_lse)
        grid = Grid(q, k, mask, how)
        queries = given_by_query(grid, q, out, lse, grad_out, grad_lse)
        wanted = zip((q, k, v, mask), needs, strict=True)
        grads = [zeros(x, lse.dtype) if x is not None and need else None for x, need in wanted]
        found = grid.rows(grads[0]), grid.columns(grads[1]), grid.columns(grads[2])
        keys = grid.columns(k), grid.columns(v)
        backward_tiles(grid, keys, queries, found, grid.tables(grads[3]), observer)
        return alike(grads, (q, k, v, mask))

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor | None) -> Grads:
        """Return the gradients of the input tensors of ``forward``."""
        if torch.is_grad_enabled():
            found = _plainly(ctx.saved_tensors, ctx.how, ctx.needs, cotangents)
        else:
            found = _by_tiles(ctx.saved_tensors, ctx.how, cotangents)
        return *found, None, None, None


def backward_tiles(
    grid: Grid,
    keys: tuple[Tensor, Tensor],
    queries: tuple[Tensor, Tensor, Tensor, Tensor],
    found: Gradients,
    of_mask: TiledMask | None,
    observer: Observer | None,
) -> None:
    """Add each tile's contribution to the gradients, and pass the tile to the observer.

    ``keys`` contains ``K`` and ``V``. ``queries`` contains ``Q``, ``dO / (1 - p)``, ``L`` and
    ``D``. ``found`` contains ``dQ``, ``dK`` and ``dV``. Each gradient starts as zeros, or is None
    if it is not needed.
    """
    grad_q, grad_k, grad_v = found
    buffers = grid.buffers(observer, beside_weights=1)
    for column in grid.places.by_columns():
        k_j, v_j = grid.cut(column[0].of_key, *keys)
        for at in column:
            q_i, grad_i, lse_i, delta_i = grid.cut(at.of_query, *queries)
            scores, weights, grad_scores = grid.shaped(buffers, at)
            grid.scores(q_i, k_j, at, out=scores)
            torch.sub(scores, finite(lse_i), out=weights).exp_()
            gone = grid.gone(at)
            without(torch.bmm(grad_i, v_j.mT, out=grad_scores), gone)
            grad_scores.sub_(delta_i).mul_(weights)
            without(weights, gone)
            if grad_q is not None:
                grad_q[at.of_query].baddbmm_(grad_scores, k_j, alpha=grid.how.scale)
            if grad_k is not None:
                grad_k[at.of_key].baddbmm_(grad_scores.mT, q_i, alpha=grid.how.scale)
            if grad_v is not None:
                grad_v[at.of_key].baddbmm_(weights.mT, grad_i)
            if of_mask is not None:
                of_mask.add(at, grad_scores)
            if observer is not None:
                live = {"q": q_i, "k": k_j, "v": v_j, "grad_out": grad_i, "lse": lse_i}
                live |= {"delta": delta_i, "scores": scores, "weights": weights}
                live |= {"grad_scores": grad_scores}
                parts = {"grad_q": at.of_query, "grad_k": at.of_key, "grad_v": at.of_key}
                so_far = zip(parts.items(), found, strict=True)
                live |= {name: x[part] for (name, part), x in so_far if x is not None}
                observer(Tile(at.row, at.column, live))


def given_by_query(
    grid: Grid, q: Tensor, out: Tensor, lse: Tensor, grad_out: Tensor, grad_lse: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return ``Q``, ``dO / (1 - p)``, ``L`` and ``D``, which backward needs for each query."""
    grad = grad_out.to(lse.dtype)
    delta = (grad * out).sum(-1) - grad_lse
    scaled = grad * grid.how.kept if grid.how.dropout_p else grad
    return grid.rows(q), grid.rows(scaled), grid.numbers(lse), grid.numbers(delta)


def zeros(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return contiguous zeros for a gradient. ``zeros_like`` would keep the strides of ``x``."""
    return torch.zeros(x.shape, dtype=dtype, device=x.device)


def alike(grads: Sequence[Tensor | None], inputs: Sequence[Tensor | None]) -> Grads:
    """Return each gradient in the dtype of its input."""
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
    """Compute the second-order gradients with plain operations that autograd can differentiate."""
    # Use aliases, so that no gradient of the eight tensors includes the path from O and L to q.
    cut: list[Any] = [x if x is None else x.view_as(x) for x in saved]
    grads = gradients(cut[:6], cut[6:], how, needs)
    wanted = [x for x in cut if x is not None and x.requires_grad]
    pairs = zip(grads, arrived, strict=True)
    made, to = zip(*((y, c) for y, c in pairs if y is not None), strict=True)
    found = iter(torch.autograd.grad(made, wanted, to, create_graph=True, allow_unused=True))
    return tuple(next(found) if x is not None and x.requires_grad else None for x in cut)


def second_order_tiles(
    grid: Grid,
    queries: Tensors,
    keys: Tensors,
    masks: tuple[TiledMask | None, TiledMask | None],
    by_query: Tensors,
    by_key: Tensors,
) -> None:
    """Add each tile's contribution to the second-order gradients.

    ``TiledAttentionBackward`` defines the symbols. ``queries`` contains ``Q``, ``dO / (1 - p)``,
    ``L``, ``D`` and ``A``. ``keys`` contains ``K``, ``V``, ``B`` and ``C``. The first of the
    ``masks`` contains ``T``, and the second collects ``Y``. All results start as zeros.
    ``by_query`` contains the buffers for ``Q``, ``dO``, ``rowsum X`` and ``rowsum Y``. ``by_key``
    contains the buffers for ``K`` and ``V``.
    """
    buffers = grid.buffers(None, beside_weights=3)
    for column in grid.places.by_columns():
        mine = list(grid.cut(column[0].of_key, *keys))
        for at in column:
            theirs = list(grid.cut(at.of_query, *queries))
            square = _squares(grid, at, theirs, mine, masks[0], list(grid.shaped(buffers, at)))
            if masks[1] is not None:
                masks[1].add(at, square[3])
            rows = [x[at.of_query] for x in by_query]
            _add_plain(grid.how.scale, theirs, mine, square, rows, [x[at.of_key] for x in by_key])
            _add_dropped(theirs, mine, square, grid.gone(at), rows[1], by_key[1][at.of_key])


def _squares(
    grid: Grid,
    at: At,
    queries: Tensors,
    keys: Tensors,
    for_mask: TiledMask | None,
    buffers: list[Tensor],
) -> list[Tensor]:
    """Return ``dS``, ``P``, ``X`` and ``Y`` for a tile."""
    (q, grad, lse, delta, for_q), (k, v, for_k, for_v) = queries, keys
    scores, p, d_s, w, y = buffers
    grid.scores(q, k, at, out=scores)
    torch.sub(scores, finite(lse), out=p).exp_()
    gone = grid.gone(at)
    without(torch.bmm(grad, v.mT, out=d_s), gone).sub_(delta)
    torch.baddbmm(w, for_q, k.mT, beta=0, alpha=grid.how.scale, out=w)
    w.baddbmm_(q, for_k.mT, alpha=grid.how.scale)
    if for_mask is not None:
        w.add_(for_mask.tile(at))
    without(torch.bmm(grad, for_v.mT, out=y), gone).addcmul_(w, d_s)
    return [square.mul_(p) if square is not p else p for square in (d_s, p, w, y)]


def _add_plain(
    scale: float, queries: Tensors, keys: Tensors, square: Tensors, rows: Tensors, columns: Tensors
) -> None:
    (q, _, _, _, for_q), (k, _, for_k, _) = queries, keys
    d_s, _, x, y = square
    rows[0].baddbmm_(y, k, alpha=scale).baddbmm_(d_s, for_k, alpha=scale)
    columns[0].baddbmm_(y.mT, q, alpha=scale).baddbmm_(d_s.mT, for_q, alpha=scale)
    rows[2].add_(x.sum(-1, keepdim=True))
    rows[3].add_(y.sum(-1, keepdim=True))


def _add_dropped(
    queries: Tensors,
    keys: Tensors,
    square: Tensors,
    gone: Tensor | None,
    for_grad: Tensor,
    for_v: Tensor,
) -> None:
    """Add the terms that depend on dropout: ``X V + P C`` for ``dO``, and ``Xᵀ dO`` for ``V``."""
    p, x = without(square[1], gone), without(square[2], gone)
    for_grad.baddbmm_(x, keys[1]).baddbmm_(p, keys[3])
    for_v.baddbmm_(x.mT, queries[1])
