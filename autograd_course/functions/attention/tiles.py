"""The tiles of a score matrix: their positions, their order, their masks and their scores."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from autograd_course.functions.attention.arguments import How, groups, wide
from autograd_course.functions.attention.dropout import dropped

# The numbers of queries and keys in a tile. With these sizes, the buffers fit into a core's cache,
# and the matrix products are large. A smaller tile on the diagonal wastes fewer scores.
BLOCK, CAUSAL_BLOCK = (512, 512), (384, 384)
ELEMENTS = 2**18  # the total number of elements in tiles computed together, one tile per head


@dataclass(frozen=True)
class Tile:
    """A tile that has just been computed: its position, and the tensors in memory at that moment.

    ``row`` and ``column`` count blocks of queries (group after group) and blocks of keys. In
    forward, ``live`` contains ``q k v scores weights rescale max sum out``. In backward it contains
    ``q k v grad_out lse delta scores weights grad_scores grad_q grad_k grad_v``. ``out`` is not yet
    divided by ``sum``. All of these tensors have three dims, the first of which is the head dim.
    They are views of buffers that the next tile overwrites, so an observer must clone the tensors
    that it keeps.
    """

    row: int
    column: int
    live: dict[str, Tensor]


Observer = Callable[[Tile], None]


# --- where tiles lie ---------------------------------------------------------------------------


class At(NamedTuple):
    """The position of a tile: its row and column, and its slices of heads, queries and keys."""

    row: int
    column: int
    heads: slice
    member: int
    queries: slice
    keys: slice

    @property
    def heads_of_query(self) -> tuple[slice, int]:
        """The tile's index into a tensor with one entry per query head."""
        return self.heads, self.member

    @property
    def of_query(self) -> tuple[slice, int, slice]:
        """The tile's index into a tensor with one entry per query."""
        return self.heads, self.member, self.queries

    @property
    def of_key(self) -> tuple[slice, slice]:
        """The tile's index into a tensor with one entry per key."""
        return self.heads, self.keys


@dataclass(frozen=True)
class Places:
    """The positions of all tiles in ``heads`` matrices of ``members · n`` rows and ``m`` columns.

    The query heads of a group share their keys, so each additional head adds ``n`` rows to the same
    columns. ``together`` key heads are processed at once. With ``causal``, the iterators skip tiles
    in which no query sees any key.
    """

    heads: int
    members: int
    n: int
    m: int
    block: tuple[int, int]
    together: int
    causal: bool

    def by_rows(self) -> Iterator[list[At]]:
        """Yield a list of tiles for each row. Skip rows in which no query sees any key."""
        for heads in _cut(self.heads, self.together):
            for row in range(self.members * self._height):
                tiles = (self._at(heads, row, column) for column in range(self._width))
                if seen := [at for at in tiles if self._seen(at)]:
                    yield seen

    def by_columns(self) -> Iterator[list[At]]:
        """Yield a list of tiles for each column. Skip columns whose keys no query sees."""
        for heads in _cut(self.heads, self.together):
            for column in range(self._width):
                rows = range(self.members * self._height)
                tiles = (self._at(heads, row, column) for row in rows)
                if seen := [at for at in tiles if self._seen(at)]:
                    yield seen

    @property
    def _height(self) -> int:
        return -(-self.n // self.block[0])

    @property
    def _width(self) -> int:
        return -(-self.m // self.block[1])

    def _at(self, heads: slice, row: int, column: int) -> At:
        member, part = divmod(row, self._height)
        queries, keys = _part(part, self.block[0], self.n), _part(column, self.block[1], self.m)
        return At(row, column, heads, member, queries, keys)

    def _seen(self, at: At) -> bool:
        return not self.causal or at.keys.start < at.queries.stop


def _cut(size: int, step: int) -> list[slice]:
    return [_part(number, step, size) for number in range(-(-size // step))]


def _part(number: int, step: int, size: int) -> slice:
    return slice(number * step, min((number + 1) * step, size))


# --- a tile of a mask --------------------------------------------------------------------------


class TiledMask:
    """Read the tiles of a mask, or add tiles to its gradient.

    ``mask`` broadcasts to ``(*lead, N, M)``, where ``lead`` contains the leading dims of the
    queries. The class views ``mask`` as a stack of tables with the shape ``(N or 1, M or 1)``. For
    each query head, it stores the index of the head's table.
    """

    def __init__(self, mask: Tensor, lead: torch.Size, members: int) -> None:
        mask = mask[(None,) * max(0, 2 - mask.dim())]
        self.tables = mask.reshape(-1, *mask.shape[-2:])
        numbers = torch.arange(len(self.tables), device=mask.device)
        self._of_head = numbers.view(mask.shape[:-2]).expand(lead).reshape(-1, members)

    def tile(self, at: At) -> Tensor:
        """Return the mask of a tile, in a shape that broadcasts to the tile's scores."""
        found = self._seen(at)
        return found if len(found) == 1 else found.index_select(0, self._of_head[at.heads_of_query])

    def add(self, at: At, tile: Tensor) -> None:
        """Add a tile of gradients to the mask's gradient, summed where the mask broadcasts."""
        place = self._seen(at)
        summed = tile.sum_to_size(len(tile), *place.shape[1:])
        place.index_add_(0, self._of_head[at.heads_of_query], summed)

    def _seen(self, at: At) -> Tensor:
        _, n, m = self.tables.shape
        return self.tables[:, at.queries if n > 1 else slice(1), at.keys if m > 1 else slice(1)]


def unexpanded(mask: Tensor) -> Tensor:
    """Return the mask with each expanded dim (stride 0) reduced to size 1."""
    return mask[tuple(slice(1) if step == 0 else slice(None) for step in mask.stride())]


# --- the computation in a tile -----------------------------------------------------------------


class Grid:
    """The tiles of one attention call: their positions (``places``), tensors, masks and scores."""

    def __init__(self, q: Tensor, k: Tensor, mask: Tensor | None, how: How) -> None:
        members, n, m = groups(q, k), q.shape[-2], k.shape[-2]
        heads = math.prod(q.shape[:-2]) // members
        height, width = how.block or (CAUSAL_BLOCK if how.causal else BLOCK)
        block = max(1, min(height, n)), max(1, min(width, m))
        together = max(1, heads if how.block else ELEMENTS // math.prod(block))
        self.how, self.lead = how, (heads, members)
        self.places = Places(heads, members, n, m, block, together, how.causal)
        self._shape = q.shape[:-2]
        self._mask = None if mask is None else self.tables(unexpanded(mask))
        self._room = min(together, heads) * math.prod(block)
        self._like = torch.empty(0, dtype=wide(q.dtype), device=q.device)

    def rows(self, x: Tensor | None) -> Any:
        """Return a view ``(heads, members, N, ...)`` of a tensor with one row per query."""
        return None if x is None else x.reshape(*self.lead, self.places.n, x.shape[-1])

    def numbers(self, x: Tensor) -> Tensor:
        """Return a view ``(heads, members, N, 1)`` of a tensor with one number per query."""
        return x.reshape(*self.lead, self.places.n, 1)

    def columns(self, x: Tensor | None) -> Any:
        """Return a view ``(heads, M, ...)`` of a tensor with one row per key."""
        return None if x is None else x.reshape(self.lead[0], self.places.m, x.shape[-1])

    def tables(self, x: Tensor | None) -> Any:
        """Return a :class:`TiledMask` that reads tiles of a mask or adds tiles to its gradient."""
        return None if x is None else TiledMask(x, self._shape, self.lead[1])

    def buffers(self, observer: Observer | None, beside_weights: int) -> list[Tensor]:
        """Return buffers for the scores, for the weights, and for ``beside_weights`` other tensors.

        A call needs only these buffers, its inputs and its outputs. Without an observer, the scores
        and the weights share one buffer.
        """
        count = 1 + (observer is not None) + beside_weights
        first, *others = self._like.new_empty(count, self._room)
        return [first, first, *others] if observer is None else [first, *others]

    def shaped(self, buffers: Iterable[Tensor], at: At) -> Iterable[Tensor]:
        """Return views of the buffers in the shape of a tile. Tiles at the edges are smaller."""
        sizes = [part.stop - part.start for part in (at.heads, at.queries, at.keys)]
        return (room[: math.prod(sizes)].view(sizes) for room in buffers)

    def cut(self, at: tuple[slice | int, ...], *tensors: Tensor) -> Iterable[Tensor]:
        """Return the slice ``at`` of each tensor, converted to the computation dtype."""
        return (x[at].to(self._like.dtype) for x in tensors)

    def scores(self, q: Tensor, k: Tensor, at: At, out: Tensor) -> None:
        """Write the scores ``scale · Q Kᵀ`` of a tile to ``out``. Masked scores are ``-∞``."""
        torch.baddbmm(out, q, k.mT, beta=0, alpha=self.how.scale, out=out)
        if self.how.causal and at.keys.stop - 1 > at.queries.start:
            seen = torch.ones(out.shape[1:], dtype=torch.bool, device=out.device)
            out.masked_fill_(~seen.tril_(at.queries.start - at.keys.start), -math.inf)
        if self._mask is not None:
            tile = self._mask.tile(at)
            _ = out.masked_fill_(~tile, -math.inf) if tile.dtype == torch.bool else out.add_(tile)

    def gone(self, at: At) -> Tensor | None:
        """Return a mask of the tile's weights that dropout sets to 0, or None without dropout."""
        if not self.how.dropout_p:
            return None
        heads, queries, keys = (
            torch.arange(part.start, part.stop, device=self._like.device)
            for part in (at.heads, at.queries, at.keys)
        )
        rows = (heads[:, None] * self.lead[1] + at.member) * self.places.n + queries
        return dropped(rows, keys, self.how.dropout_p, self.how.seed)


def without(weights: Tensor, gone: Tensor | None) -> Tensor:
    """Set the dropped weights to 0 in place."""
    return weights if gone is None else weights.masked_fill_(gone, 0)
