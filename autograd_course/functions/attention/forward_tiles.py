"""Attention forward, tile by tile: the online softmax."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from autograd_course.functions.attention.arguments import finite, normalized
from autograd_course.functions.attention.tiles import Grid, Tile, without


def forward_tiles(
    grid: Grid, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor
) -> Iterator[Tile]:
    """Write ``O`` and ``L`` of every row of tiles; yield after each tile.

    ``out`` comes as zeros and ``lse`` as ``-∞``, which they stay where there are no keys.
    """
    buffers = grid.buffers(2)
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
            rescale = torch.exp(before - finite(high))
            torch.sub(scores, finite(high), out=weights).exp_()
            total.mul_(rescale).add_(weights.sum(-1, keepdim=True))
            mixed.mul_(rescale).baddbmm_(without(weights, grid.gone(at)), v_j)
            live = {"q": q_i, "k": k_j, "v": v_j, "scores": scores, "weights": weights}
            live |= {"rescale": rescale, "max": high, "sum": total, "out": mixed}
            yield Tile(at.row, at.column, live)
        out[here] = normalized(mixed, total).mul_(grid.how.kept)
        lse[here] = finite(high) + total.log()
