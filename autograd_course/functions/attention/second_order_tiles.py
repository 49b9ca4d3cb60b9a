"""The derivative of attention's backward, tile by tile: one pass, as for the first."""

from collections.abc import Sequence

import torch
from torch import Tensor

from autograd_course.functions.attention.arguments import finite
from autograd_course.functions.attention.masks import TiledMask
from autograd_course.functions.attention.places import At
from autograd_course.functions.attention.tiles import Grid, without

Tensors = Sequence[Tensor]


def second_order_tiles(
    grid: Grid,
    queries: Tensors,
    keys: Tensors,
    masks: tuple[TiledMask | None, TiledMask | None],
    by_query: Tensors,
    by_key: Tensors,
) -> None:
    """Add each tile's part to what is found; letters are those of ``TiledAttentionBackward``.

    ``queries`` are ``Q``, ``dO / (1 - p)``, ``L``, ``D`` and ``A``; ``keys`` are ``K``, ``V``,
    ``B`` and ``C``; ``masks`` read ``T`` and collect ``Y``. Found, zeros at first, are ``by_query``
    for ``Q``, for ``dO``, ``rowsum X`` and ``rowsum Y``, and ``by_key`` for ``K`` and ``V``.
    """
    buffers = grid.buffers(4)
    for column in grid.places.by_columns():
        mine = list(grid.cut(column[0].of_key, *keys))
        for at in column:
            theirs = list(grid.cut(at.of_query, *queries))
            square = _squares(grid, at, theirs, mine, masks[0], list(grid.shaped(buffers, at)))
            if masks[1] is not None:
                masks[1].add(at, square[3])
            rows = [x[at.of_query] for x in by_query]
            _add(grid.how.scale, theirs, mine, square, rows, [x[at.of_key] for x in by_key])
            _add_dropped(theirs, mine, square, grid.gone(at), rows[1], by_key[1][at.of_key])


def _squares(
    grid: Grid,
    at: At,
    queries: Tensors,
    keys: Tensors,
    for_mask: TiledMask | None,
    buffers: list[Tensor],
) -> list[Tensor]:
    """Return ``dS``, ``P``, ``X`` and ``Y`` of a tile."""
    (q, grad, lse, delta, for_q), (k, v, for_k, for_v) = queries, keys
    d_s, p, w, y = buffers
    grid.scores(q, k, at, out=d_s)
    torch.sub(d_s, finite(lse), out=p).exp_()
    gone = grid.gone(at)
    without(torch.bmm(grad, v.mT, out=d_s), gone).sub_(delta)
    torch.baddbmm(w, for_q, k.mT, beta=0, alpha=grid.how.scale, out=w)
    w.baddbmm_(q, for_k.mT, alpha=grid.how.scale)
    if for_mask is not None:
        w.add_(for_mask.tile(at))
    without(torch.bmm(grad, for_v.mT, out=y), gone).addcmul_(w, d_s)
    return [square.mul_(p) if square is not p else p for square in (d_s, p, w, y)]


def _add(
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
    """Add what dropout thins out: ``X V + P C`` for ``dO``, ``Xᵀ dO`` for ``V``."""
    p, x = without(square[1], gone), without(square[2], gone)
    for_grad.baddbmm_(x, keys[1]).baddbmm_(p, keys[3])
    for_v.baddbmm_(x.mT, queries[1])
