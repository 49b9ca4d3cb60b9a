"""Attention backward, tile by tile: the weights are rebuilt from the log-sum-exp."""

from collections.abc import Iterator

import torch
from torch import Tensor

from autograd_course.functions.attention.arguments import finite
from autograd_course.functions.attention.masks import TiledMask
from autograd_course.functions.attention.places import At
from autograd_course.functions.attention.tiles import Grid, Tile, without

Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


def backward_tiles(
    grid: Grid,
    keys: tuple[Tensor, Tensor],
    queries: tuple[Tensor, Tensor, Tensor, Tensor],
    found: Gradients,
    of_mask: TiledMask | None,
) -> Iterator[Tile]:
    """Add each tile's part to the gradients of q, k, v and of the mask; yield after each tile.

    ``keys`` are ``K`` and ``V``; ``queries`` are ``Q``, ``dO / (1 - p)``, ``L`` and ``D - dL``;
    ``found`` are ``dQ``, ``dK`` and ``dV``, zeros at first, None where not asked for.
    """
    buffers = grid.buffers(3)
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
            _add(at, grid.how.scale, found, q_i, k_j, grad_i, without(weights, gone), grad_scores)
            if of_mask is not None:
                of_mask.add(at, grad_scores)
            live = {"q": q_i, "k": k_j, "v": v_j, "grad_out": grad_i, "lse": lse_i}
            live |= {"delta": delta_i, "scores": scores, "weights": weights}
            yield Tile(at.row, at.column, live | {"grad_scores": grad_scores} | _parts(at, found))


def _add(
    at: At,
    scale: float,
    found: Gradients,
    q: Tensor,
    k: Tensor,
    grad_out: Tensor,
    weights: Tensor,
    grad_scores: Tensor,
) -> None:
    grad_q, grad_k, grad_v = found
    if grad_q is not None:
        grad_q[at.of_query].baddbmm_(grad_scores, k, alpha=scale)
    if grad_k is not None:
        grad_k[at.of_key].baddbmm_(grad_scores.mT, q, alpha=scale)
    if grad_v is not None:
        grad_v[at.of_key].baddbmm_(weights.mT, grad_out)


def _parts(at: At, found: Gradients) -> dict[str, Tensor]:
    names, places = ("grad_q", "grad_k", "grad_v"), (at.of_query, at.of_key, at.of_key)
    named = zip(names, places, found, strict=True)
    return {name: x[place] for name, place, x in named if x is not None}
