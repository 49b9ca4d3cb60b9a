"""Attention tile by tile: the score matrix never exists as a whole."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.attention import fitting, scale_of
from autograd_course.functions.attention_tiles import (
    Grid,
    Observer,
    backward_tiles,
    drained,
    forward_tiles,
)


class TiledAttention(torch.autograd.Function):
    """Attention as :class:`ScaledDotProductAttention`, by tiles of ``block`` queries and keys.

    Forward (online softmax) keeps for the queries of a row of tiles the running maximum ``m``, the
    running sum ``l`` and the unnormalized output ``A``. A tile with scores ``S`` does

    ``m' = max(m, rowmax S)``, ``r = exp(m - m')``, ``W = exp(S - m')``,
    ``l' = r·l + rowsum W``, ``A' = r·A + W V``;

    after the last one ``O = A / l`` and ``L = m + log l``. If the maximum rises, what was summed
    before is rescaled by ``r``, never computed again. Backward goes by columns of tiles: it
    rebuilds ``P = exp(S - L)`` of each tile and accumulates ``dQ``, ``dK`` and ``dV``.

    Arguments, shapes, masked rows and the second output are those of
    ``ScaledDotProductAttention``; here a ``mask`` must be boolean. ``block`` may be larger than the
    sequence and need not divide it. With ``causal``, tiles above the diagonal are skipped. Beside
    inputs and outputs, memory is of the order of one tile. Twice differentiable: tiles are
    joined, not written into a buffer; backward with ``create_graph=True`` keeps all of them.

    ``observer`` is called with a :class:`Tile` after each tile's turn, in forward and in backward.

    Raises ``ValueError`` as ``ScaledDotProductAttention``, and for a mask that is not boolean or a
    block without elements. Sources: Milakov and Gimelshein 2018 (online softmax), Rabe and Staats
    2021 (attention by chunks), Dao et al. 2022 and Dao 2023 (FlashAttention).
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
        block: tuple[int, int] = (64, 64),
        observer: Observer | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return ``O`` and the log-sum-exp of each row, saving both with the inputs."""
        fitting(q, k, v, mask)
        if mask is not None and mask.dtype != torch.bool:
            raise ValueError(f"TiledAttention needs a boolean mask, got {mask.dtype}")
        if min(block) < 1:
            raise ValueError(f"a block has at least one query and one key, got {tuple(block)}")
        ctx.grid = Grid(q.shape[-2], k.shape[-2], *block, causal, scale_of(q, scale))
        ctx.observer = observer
        out, lse = drained(forward_tiles(ctx.grid, q, k, v, mask), observer)
        ctx.save_for_backward(q, k, v, mask, out, lse)
        return out, lse

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor, grad_lse: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of ``q``, ``k`` and ``v``."""
        q, k, v, mask, out, lse = ctx.saved_tensors
        delta = (grad_out * out).sum(-1) - grad_lse
        needs = ctx.needs_input_grad[:3]
        tiles = backward_tiles(ctx.grid, q, k, v, mask, grad_out, lse, delta, needs)
        return *drained(tiles, ctx.observer), *([None] * 5)
