"""The two loops of tiled attention: forward by rows of tiles, backward by columns."""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from autograd_course.functions.attention import finite, normalized, scores


@dataclass(frozen=True)
class Tile:
    """One tile's turn: which it is, and the tensors that are alive at its end.

    ``row`` and ``column`` count blocks of queries and of keys. ``live`` of a forward tile holds
    ``q k v scores weights rescale max sum out``; of a backward tile ``q k v grad_out lse delta
    scores weights grad_scores grad_q grad_k grad_v``. ``out`` is not yet divided by ``sum``. What
    an observer keeps of them stays alive.
    """

    row: int
    column: int
    live: dict[str, Tensor]


Observer = Callable[[Tile], None]
Result = TypeVar("Result")


@dataclass(frozen=True)
class Grid:
    """The tiles of a score matrix of ``n`` queries and ``m`` keys."""

    n: int
    m: int
    height: int
    width: int
    causal: bool
    scale: float

    def rows(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the blocks of a tensor that has an entry for each query."""
        return torch.split(x, self.height, -2)

    def columns(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the blocks of a tensor that has an entry for each key."""
        return torch.split(x, self.width, -2)

    def seen(self, row: int, column: int) -> bool:
        """Whether the last query of a tile's row may see the first key of its column."""
        last = min((row + 1) * self.height, self.n) - 1
        return not self.causal or column * self.width <= last

    def scores(self, row: int, column: int, q: Tensor, k: Tensor, mask: Tensor | None) -> Tensor:
        """Return a tile of the score matrix; of ``mask`` only that tile is looked at."""
        i, j = row * self.height, column * self.width
        if mask is not None:
            mask = mask.expand(*mask.shape[:-2], self.n, self.m)
            mask = mask[..., i : i + self.height, j : j + self.width]
        return scores(q, k, mask, self.scale, i - j if self.causal else None)


def forward_tiles(
    grid: Grid, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
) -> Generator[Tile, None, tuple[Tensor, Tensor]]:
    """Go through the tiles by rows; yield after each, return the two outputs."""
    out, lse = [], []
    for i, q_i in enumerate(grid.rows(q)):
        high = q_i.new_full((*q_i.shape[:-1], 1), -math.inf)
        total, mixed = torch.zeros_like(high), q_i.new_zeros(*q_i.shape[:-1], v.shape[-1])
        for j, (k_j, v_j) in enumerate(zip(grid.columns(k), grid.columns(v), strict=True)):
            if not grid.seen(i, j):
                continue
            s = grid.scores(i, j, q_i, k_j, mask)
            before, high = high, torch.maximum(high, s.amax(-1, keepdim=True))
            rescale, weights = torch.exp(before - finite(high)), torch.exp(s - finite(high))
            total = rescale * total + weights.sum(-1, keepdim=True)
            mixed = rescale * mixed + weights @ v_j
            live = {"q": q_i, "k": k_j, "v": v_j, "scores": s, "weights": weights}
            live |= {"rescale": rescale, "max": high, "sum": total, "out": mixed}
            yield Tile(i, j, live)
        out.append(normalized(mixed, total))
        lse.append((finite(high) + total.log()).squeeze(-1))
    return torch.cat(out, -2), torch.cat(lse, -1)


def backward_tiles(
    grid: Grid,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    grad_out: Tensor,
    lse: Tensor,
    delta: Tensor,
    needs: Sequence[bool],
) -> Generator[Tile, None, tuple[Tensor | None, ...]]:
    """Go through the tiles by columns; yield after each, return the gradients of q, k and v."""
    per_query = [grid.rows(x) for x in (q, grad_out, lse[..., None], delta[..., None])]
    grad_q, grad_k, grad_v = [torch.zeros_like(q_i) for q_i in per_query[0]], [], []
    for j, (k_j, v_j) in enumerate(zip(grid.columns(k), grid.columns(v), strict=True)):
        to_k, to_v = torch.zeros_like(k_j), torch.zeros_like(v_j)
        for i, (q_i, grad_i, lse_i, delta_i) in enumerate(zip(*per_query, strict=True)):
            if not grid.seen(i, j):
                continue
            s = grid.scores(i, j, q_i, k_j, mask)
            weights = torch.exp(s - finite(lse_i))
            to_scores = weights * (grad_i @ v_j.mT - delta_i)
            if needs[0]:
                grad_q[i] = grad_q[i] + grid.scale * to_scores @ k_j
            if needs[1]:
                to_k = to_k + grid.scale * to_scores.mT @ q_i
            if needs[2]:
                to_v = to_v + weights.mT @ grad_i
            live = {"q": q_i, "k": k_j, "v": v_j, "grad_out": grad_i, "lse": lse_i}
            live |= {"delta": delta_i, "scores": s, "weights": weights, "grad_scores": to_scores}
            live |= {"grad_q": grad_q[i], "grad_k": to_k, "grad_v": to_v}
            yield Tile(i, j, live)
        grad_k.append(to_k)
        grad_v.append(to_v)
    found = zip((grad_q, grad_k, grad_v), needs, strict=True)
    return tuple(torch.cat(blocks, -2) if needed else None for blocks, needed in found)


def drained(tiles: Generator[Tile, None, Result], observer: Observer | None) -> Result:
    """Run the tiles to their end, showing each to the observer; return the result."""
    while True:
        try:
            tile = next(tiles)
        except StopIteration as end:
            result: Result = end.value
            return result
        if observer is not None:
            observer(tile)
