"""A score matrix in tiles: how each is computed, masked and dropped, in buffers that are reused."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.attention.arguments import How, groups, wide
from autograd_course.functions.attention.dropout import dropped
from autograd_course.functions.attention.masks import TiledMask, unexpanded
from autograd_course.functions.attention.places import At, Places

SIDE, ELEMENTS = 512, 2**18  # of a tile: its buffers stay in a core's cache, its products are large


@dataclass(frozen=True)
class Tile:
    """One tile's turn: which it is, and the tensors that are alive at its end.

    ``row`` and ``column`` count blocks of queries (group after group) and of keys. ``live`` of a
    forward tile holds ``q k v scores weights rescale max sum out``; of a backward tile ``q k v
    grad_out lse delta scores weights grad_scores grad_q grad_k grad_v``. ``out`` is not yet divided
    by ``sum``. All have three axes, the first for the heads. They are views of buffers that the
    next turn overwrites: an observer clones what it keeps.
    """

    row: int
    column: int
    live: dict[str, Tensor]


Observer = Callable[[Tile], None]


class Grid:
    """The tiles of one call: where they lie (``places``), and what is done in each."""

    def __init__(self, q: Tensor, k: Tensor, mask: Tensor | None, how: How) -> None:
        members, n, m = groups(q, k), q.shape[-2], k.shape[-2]
        heads = math.prod(q.shape[:-2]) // members
        height, width = how.block or (SIDE, SIDE)
        block = max(1, min(height, n)), max(1, min(width, m))
        together = max(1, heads if how.block else ELEMENTS // math.prod(block))
        self.how, self.lead = how, (heads, members)
        self.places = Places(heads, members, n, m, block, together, how.causal)
        self._shape = q.shape[:-2]
        self._mask = None if mask is None else self.tables(unexpanded(mask))
        self._room = min(together, heads) * math.prod(block)
        self._like = torch.empty(0, dtype=wide(q.dtype), device=q.device)

    def rows(self, x: Tensor | None) -> Any:
        """Return a view ``(heads, members, N, ...)`` of what has a row for each query."""
        return None if x is None else x.reshape(*self.lead, self.places.n, x.shape[-1])

    def numbers(self, x: Tensor) -> Tensor:
        """Return a view ``(heads, members, N, 1)`` of what has one number for each query."""
        return x.reshape(*self.lead, self.places.n, 1)

    def columns(self, x: Tensor | None) -> Any:
        """Return a view ``(heads, M, ...)`` of what has a row for each key."""
        return None if x is None else x.reshape(self.lead[0], self.places.m, x.shape[-1])

    def tables(self, x: Tensor | None) -> Any:
        """Return a mask, or the room for its gradient, for its tiles to be taken."""
        return None if x is None else TiledMask(x, self._shape, self.lead[1])

    def buffers(self, count: int) -> Tensor:
        """Return room for some tiles; the memory of a call beside its inputs and outputs."""
        return self._like.new_empty(count, self._room)

    def shaped(self, buffers: Tensor, at: At) -> Iterable[Tensor]:
        """Return the buffers in the shape of a tile, which is smaller at the edges."""
        sizes = [part.stop - part.start for part in (at.heads, at.queries, at.keys)]
        return (room[: math.prod(sizes)].view(sizes) for room in buffers)

    def cut(self, at: tuple[slice | int, ...], *tensors: Tensor) -> Iterable[Tensor]:
        """Return a tile's part of some tensors, in the dtype to compute in."""
        return (x[at].to(self._like.dtype) for x in tensors)

    def scores(self, q: Tensor, k: Tensor, at: At, out: Tensor) -> None:
        """Write ``scale · Q Kᵀ`` of a tile, ``-∞`` where masked."""
        torch.baddbmm(out, q, k.mT, beta=0, alpha=self.how.scale, out=out)
        if self.how.causal and at.keys.stop - 1 > at.queries.start:
            seen = torch.ones(out.shape[1:], dtype=torch.bool, device=out.device)
            out.masked_fill_(~seen.tril_(at.queries.start - at.keys.start), -math.inf)
        if self._mask is not None:
            tile = self._mask.tile(at)
            _ = out.masked_fill_(~tile, -math.inf) if tile.dtype == torch.bool else out.add_(tile)

    def gone(self, at: At) -> Tensor | None:
        """Return where dropout sets the weights of a tile to 0, or None without dropout."""
        if not self.how.dropout_p:
            return None
        heads, queries, keys = (
            torch.arange(part.start, part.stop, device=self._like.device)
            for part in (at.heads, at.queries, at.keys)
        )
        rows = (heads[:, None] * self.lead[1] + at.member) * self.places.n + queries
        return dropped(rows, keys, self.how.dropout_p, self.how.seed)


def without(weights: Tensor, gone: Tensor | None) -> Tensor:
    """Write 0, in place, where dropout takes a weight."""
    return weights if gone is None else weights.masked_fill_(gone, 0)


def shown(tiles: Iterable[Tile], observer: Observer | None) -> None:
    """Run the tiles to their end, showing each to the observer."""
    for tile in tiles:
        if observer is not None:
            observer(tile)
