"""Attention tile by tile: the score matrix never exists as a whole."""

import math
from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.attention.arguments import fitting, how, wide
from autograd_course.functions.attention.forward_tiles import forward_tiles
from autograd_course.functions.attention.tiled_backward import TiledAttentionBackward
from autograd_course.functions.attention.tiles import Grid, Observer, shown


class TiledAttention(torch.autograd.Function):
    """Attention as :class:`ScaledDotProductAttention`, by tiles of ``block`` queries and keys.

    Forward (online softmax) keeps for the queries of a row of tiles the running maximum ``m``, the
    running sum ``l`` and the unnormalized output ``A``. A tile with scores ``S`` does

    ``m' = max(m, rowmax S)``, ``r = exp(m - m')``, ``W = exp(S - m')``,
    ``l' = r·l + rowsum W``, ``A' = r·A + W V``;

    after the last one ``O = A / l`` and ``L = m + log l``. If the maximum rises, what was summed
    before is rescaled by ``r``, never computed again. Backward goes by columns of tiles: it
    rebuilds ``P = exp(S - L)`` of each tile and accumulates ``dQ``, ``dK`` and ``dV``.

    Arguments, shapes, dtypes, masked rows and the second output are those of
    ``ScaledDotProductAttention``. ``block`` may be larger than the sequence and need not divide it;
    ``None`` lets the module choose. With ``causal``, tiles above the diagonal are skipped. Beside
    inputs, outputs and gradients, memory is that of some tiles, whatever the sequence: nothing of
    the size of ``S`` is ever made, but by a ``mask`` of that size and its gradient.

    Twice differentiable, in the same memory: backward is a Function of its own,
    :class:`TiledAttentionBackward`, whose backward goes once through the tiles.

    ``observer`` is called with a :class:`Tile` after each tile's turn, in forward and in backward.

    Raises ``ValueError`` as ``ScaledDotProductAttention``, and for a block without elements.
    Sources: Milakov and Gimelshein 2018 (online softmax), Rabe and Staats 2021 (attention by
    chunks), Dao et al. 2022 and Dao 2023 (FlashAttention).
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
        """Return ``O`` and the log-sum-exp of each row, saving both with the inputs."""
        fitting(q, k, v, mask)
        ctx.how, ctx.observer = how(q, causal, scale, dropout_p, seed, block), observer
        grid = Grid(q, k, mask, ctx.how)
        out = q.new_zeros(*q.shape[:-1], v.shape[-1])
        lse = q.new_full(q.shape[:-1], -math.inf, dtype=wide(q.dtype))
        inputs = grid.rows(q), grid.columns(k), grid.columns(v)
        shown(forward_tiles(grid, *inputs, grid.rows(out), grid.numbers(lse)), observer)
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
