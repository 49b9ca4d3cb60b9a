"""Attention in tiles, with one step replaced by a common mistake."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.attention import dropped
from autograd_course.grader.suspecting import Grads


@dataclass(frozen=True)
class Options:
    """The arguments besides q, k and v."""

    causal: bool
    dropout_p: float
    seed: int
    block: int


def factor(i: int, j: int, tile: Tensor, options: Options, seed: int | None = None) -> Tensor:
    """Return the dropout factor of a tile whose first query is i and whose first key is j."""
    if not options.dropout_p:
        return torch.ones_like(tile)
    rows, columns = (
        torch.arange(at, at + size) for at, size in zip((i, j), tile.shape[-2:], strict=True)
    )
    gone = dropped(rows, columns, options.dropout_p, options.seed if seed is None else seed)
    return (~gone).to(tile.dtype) / (1 - options.dropout_p)


def beyond(i: int, j: int, tile: Tensor) -> Tensor:
    """Return the causal mask of a tile: True where the key comes after the query."""
    rows, columns = torch.arange(tile.shape[-2]) + i, torch.arange(tile.shape[-1]) + j
    return columns > rows[:, None]


def score(q_i: Tensor, k_j: Tensor) -> Tensor:
    """Return the scores of a tile."""
    return q_i @ k_j.mT / math.sqrt(q_i.shape[-1])


def hidden(s: Tensor, i: int, j: int) -> Tensor:
    """Return the scores of a tile with -inf where the causal mask hides the key."""
    return s.masked_fill(beyond(i, j, s), -math.inf)


def starts(size: int, options: Options, i: int, queries: int) -> range:
    """Return the first key of each tile that a block of queries reads."""
    return range(0, size, options.block)


Step = Callable[..., Any]


@dataclass(frozen=True)
class Forward:
    """The steps of forward. A suspect replaces one of them."""

    score: Step = score
    hidden: Step = hidden
    starts: Step = starts
    dropped_scores: Step = lambda s, factors: s
    highest: Step = lambda before, s: torch.maximum(before, s.amax(-1, keepdim=True))
    rescale: Step = lambda before, high: torch.exp(before - high)
    weights: Step = lambda s, high, before: torch.exp(s - high)
    total: Step = lambda factor, total, w: factor * total + w.sum(-1, keepdim=True)
    mixed: Step = lambda factor, mixed, new: factor * mixed + new
    factor: Step = factor
    dropped: Step = lambda w, factors: w * factors
    result: Step = lambda mixed, total, tiles: mixed / total
    queries: Step = lambda size, block: range(0, size, block)

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        causal: bool,
        dropout_p: float,
        seed: int,
        block: int,
    ) -> Tensor:
        """Return the output. All arguments are required."""
        options = Options(causal, dropout_p, seed, block)
        parts = [
            self._of_block(q[..., i : i + block, :], k, v, i, options, q.shape[-2])
            for i in self.queries(q.shape[-2], block)
        ]
        return torch.cat(parts, -2)

    def _of_block(
        self, q_i: Tensor, k: Tensor, v: Tensor, i: int, options: Options, queries: int
    ) -> Tensor:
        high = q_i.new_full((*q_i.shape[:-1], 1), -math.inf)
        total, mixed = torch.zeros_like(high), 0 * (q_i @ k.mT @ v)
        tiles = self.starts(k.shape[-2], options, i, queries)
        for j in tiles:
            k_j, v_j = (x[..., j : j + options.block, :] for x in (k, v))
            s = self.score(q_i, k_j)
            s = self.hidden(s, i, j) if options.causal else s
            factors = self.factor(i, j, s, options)
            s = self.dropped_scores(s, factors)
            before, high = high, self.highest(high, s)
            rescale, w = self.rescale(before, high), self.weights(s, high, before)
            total = self.total(rescale, total, w)
            mixed = self.mixed(rescale, mixed, self.dropped(w, factors) @ v_j)
        result: Tensor = self.result(mixed, total, len(tiles))
        return result


FORWARD: Mapping[str, Callable[..., Tensor]] = {
    "The scores are not divided by √E.": Forward(score=lambda q, k: q @ k.mT),
    "The scores are divided by E, not by its square root.": Forward(
        score=lambda q, k: q @ k.mT / q.shape[-1]
    ),
    "The scores are divided by the root of the size of a tile. E is the size of the last dim of "
    "q.": Forward(score=lambda q, k: q @ k.mT / math.sqrt(k.shape[-2])),
    "All outputs are nan. In the first tile, the old maximum is -∞. Does one of your exponentials "
    "subtract it? Subtract the new one: exp(old - new) and exp(S - new).": Forward(
        rescale=lambda before, high: torch.exp(high - before)
    ),
    "Each tile replaces the running maximum by its own, which is -∞ if it has no visible key. Keep "
    "the larger one of the two.": Forward(highest=lambda before, s: s.amax(-1, keepdim=True)),
    "The weights of a tile are exp(S), but the running sum and output are relative to the maximum. "
    "Subtract the new maximum first.": Forward(weights=lambda s, high, before: s.exp()),
    "The running sum starts at 0 again in each tile. Add its sum to the old one.": Forward(
        total=lambda factor, total, w: w.sum(-1, keepdim=True)
    ),
    "The running output starts at 0 again in each tile. Add to the old output.": (
        Forward(mixed=lambda factor, mixed, new: new)
    ),
    "Each tile has a softmax of its own, and the results are added and divided. The weights of a "
    "tile are exp(S - maximum), without a division.": Forward(
        weights=lambda s, high, before: torch.softmax(s, -1)
    ),
    "The output is the mean over the tiles. Divide only by the running sum.": Forward(
        result=lambda mixed, total, tiles: mixed / total / tiles
    ),
    "The hidden scores are 0. exp(0) is 1, so hidden keys still have weights. Their scores must be "
    "-∞.": Forward(hidden=lambda s, i, j: s.masked_fill(beyond(i, j, s), 0)),
    "The causal mask is inverted: query i must see the keys 0 to i.": Forward(
        hidden=lambda s, i, j: s.masked_fill(~beyond(i, j, s), -math.inf)
    ),
    "The causal mask keeps only the keys from i on. Query i must see the keys 0 to i.": Forward(
        hidden=lambda s, i, j: s.masked_fill(beyond(j, i, s.mT).mT, -math.inf)
    ),
    "The causal mask has the positions of queries and keys exchanged: the rows start at i, and the "
    "columns at j.": Forward(hidden=lambda s, i, j: s.masked_fill(beyond(j, i, s), -math.inf)),
    "dropout_factor gets the first key in the place of the first query. Its arguments are i, the "
    "query, and then j, the key.": Forward(
        factor=lambda i, j, s, options: factor(j, i, s, options)
    ),
    "dropout_factor gets the number of the tile. It expects the positions of the tile's first "
    "query and first key in the whole sequence.": Forward(
        factor=lambda i, j, s, options: factor(i // options.block, j // options.block, s, options)
    ),
    "The weights that dropout keeps are not divided by 1 - p.": Forward(
        factor=lambda i, j, s, options: factor(i, j, s, options) * (1 - options.dropout_p)
    ),
    "The weights are divided by 1 - p twice. dropout_factor contains this division.": Forward(
        factor=lambda i, j, s, options: factor(i, j, s, options) / (1 - options.dropout_p)
    ),
    "Dropout multiplies the scores. It must multiply the weights, after the exponential.": Forward(
        dropped_scores=lambda s, factors: s * factors,
        dropped=lambda w, factors: w,
    ),
    "The keys of the last tile are left out, because M is not a multiple of block. A slice may be "
    "shorter, so let range run to M.": Forward(
        starts=lambda size, options, i, queries: range(
            0, size // options.block * options.block, options.block
        )
    ),
    "Each block of queries reads only the first block of keys. Loop over all blocks of keys.": (
        Forward(starts=lambda size, options, i, queries: range(0, 1))
    ),
    "Each block of queries reads only the block of keys at the same place. Loop over all blocks of "
    "keys.": Forward(
        starts=lambda size, options, i, queries: range(i, i + 1) if i < size else range(0, 1)
    ),
    "The loop over the keys runs to N, the number of queries. Let it run to M.": Forward(
        starts=lambda size, options, i, queries: range(0, min(queries, size), options.block)
    ),
    "The loop over the keys stops before the block of the queries itself. With causal=True, this "
    "block has visible keys too.": Forward(
        starts=lambda size, options, i, queries: range(
            0, i if options.causal else size, options.block
        )
    ),
    "The last queries are missing, because N is not a multiple of block. A slice may be shorter, "
    "so let range run to N.": Forward(
        queries=lambda size, block: range(0, size // block * block, block)
    ),
}


@dataclass(frozen=True)
class Backward:
    """The steps of backward. A suspect replaces one of them."""

    weights: Step = lambda s, lse, total: torch.exp(s - lse)
    grad_p: Step = lambda factors, dp: factors * dp
    grad_s: Step = lambda p, dp, delta, factors: p * (dp - delta)
    values: Step = lambda p, factors: factors * p
    scales: tuple[float, float] = (1.0, 1.0)  # the powers of √E by which dQ and dK are divided
    factor: Step = factor
    tiles: Step = lambda n, m, block: [
        (i, j) for i in range(0, n, block) for j in range(0, m, block)
    ]
    keys: Step = lambda i, j, block: slice(j, j + block)
    of_v: Step = lambda mixed, g: mixed.mT @ g
    replaced: str = ""  # the gradients that each tile overwrites instead of adding to them
    delta: Step = lambda g, out: (g * out).sum(-1, keepdim=True)

    def __call__(self, inputs: tuple[Any, ...], g: Tensor) -> Grads:
        """Return the gradients of q, k and v."""
        q, k, v, *rest = inputs
        options = Options(*rest)
        out = Forward()(*inputs)
        s = score(q, k)
        s = hidden(s, 0, 0) if options.causal else s
        lse, high = torch.logsumexp(s, -1, keepdim=True), s.amax(-1, keepdim=True)
        delta, total = self.delta(g, out), torch.exp(lse - high)
        grads = {name: torch.zeros_like(x) for name, x in zip("qkv", (q, k, v), strict=True)}
        for i, j in self.tiles(q.shape[-2], k.shape[-2], options.block):
            rows, columns = slice(i, i + options.block), self.keys(i, j, options.block)
            factors = self.factor(i, j, s[..., rows, columns], options)
            p = self.weights(s[..., rows, columns], lse[..., rows, :], total[..., rows, :])
            dp = self.grad_p(factors, g[..., rows, :] @ v[..., columns, :].mT)
            ds = self.grad_s(p, dp, delta[..., rows, :], factors)
            by_q, by_k = (ds / q.shape[-1] ** (power / 2) for power in self.scales)
            shares = {
                "q": (rows, by_q @ k[..., columns, :]),
                "k": (columns, by_k.mT @ q[..., rows, :]),
                "v": (columns, self.of_v(self.values(p, factors), g[..., rows, :])),
            }
            for name, (at, share) in shares.items():
                old = 0 if name in self.replaced else grads[name][..., at, :]
                grads[name][..., at, :] = old + share
        return tuple(grads.values())


def _only_seed_zero(i: int, j: int, tile: Tensor, options: Options) -> Tensor:
    return factor(i, j, tile, options, seed=0)


BACKWARD: Mapping[str, Backward] = {
    "The weights that backward recomputes are wrong: L is the logarithm of the sum, plus the "
    "maximum. You add the sum without its logarithm.": Backward(
        weights=lambda s, lse, total: torch.exp(s - (lse - total.log() + total))
    ),
    "backward computes a softmax of each tile. The weights of a row sum to 1 over all tiles, so "
    "use exp(S - L).": Backward(weights=lambda s, lse, total: torch.softmax(s, -1)),
    "The weights that backward recomputes are exp(S), without the division. Subtract L from S.": (
        Backward(weights=lambda s, lse, total: s.exp())
    ),
    "The dropout pattern is in dV and dP twice. P is the softmax, before dropout.": Backward(
        values=lambda p, factors: factors * factors * p,
        grad_s=lambda p, dp, delta, factors: factors * p * (dp - delta),
    ),
    "The dropout pattern multiplies P in dS too. It belongs in dP and in dV only: dS = P ∘ (dP - "
    "D), and P is the softmax, before dropout.": Backward(
        grad_s=lambda p, dp, delta, factors: factors * p * (dp - delta)
    ),
    "The dropout pattern multiplies P instead of dP: dS = P ∘ (dP - D), and P is the softmax, "
    "before dropout.": Backward(
        grad_p=lambda factors, dp: dp,
        grad_s=lambda p, dp, delta, factors: factors * p * (dp - delta),
    ),
    "dQ and dK are not divided by √E. The scores are divided by it.": Backward(scales=(0, 0)),
    "dQ is not divided by √E. The scores are divided by it.": Backward(scales=(0, 1)),
    "dK is not divided by √E. The scores are divided by it.": Backward(scales=(1, 0)),
    "dQ and dK are divided by √E twice.": Backward(scales=(2, 2)),
    "dQ is divided by √E twice.": Backward(scales=(2, 1)),
    "dK is divided by √E twice.": Backward(scales=(1, 2)),
    "dV contains only the share of the last block of queries. Add the share of every tile.": (
        Backward(replaced="v")
    ),
    "dQ, dK and dV contain only the share of the last tile. Add the share of every tile.": (
        Backward(replaced="qkv")
    ),
    "backward uses the dropout pattern of another seed. Use the one of forward.": Backward(
        factor=_only_seed_zero
    ),
    "In backward, dropout_factor gets the first key in the place of the first query. Its arguments "
    "are i, the query, and then j, the key.": Backward(
        factor=lambda i, j, s, options: factor(j, i, s, options)
    ),
    "In backward, every tile has the dropout pattern of the first tile. dropout_factor expects the "
    "positions of the tile's first query and first key.": Backward(
        factor=lambda i, j, s, options: factor(0, 0, s, options)
    ),
    "backward does not divide by 1 - p. forward does, so the gradient has the same factor.": (
        Backward(factor=lambda i, j, s, options: factor(i, j, s, options) * (1 - options.dropout_p))
    ),
    "backward visits only the tiles on the diagonal. Each block of queries meets each block of "
    "keys.": Backward(tiles=lambda n, m, block: [(i, i) for i in range(0, min(n, m), block)]),
    "backward leaves out the last tiles, because N or M is not a multiple of block. A slice may be "
    "shorter, so let range run to the end.": Backward(
        tiles=lambda n, m, block: [
            (i, j)
            for i in range(0, n // block * block, block)
            for j in range(0, m // block * block, block)
        ]
    ),
    "In backward, the loop over the keys runs to N, the number of queries. Let it run to M.": (
        Backward(
            tiles=lambda n, m, block: [
                (i, j) for i in range(0, n, block) for j in range(0, n, block)
            ]
        )
    ),
    "In backward, the slice of the keys begins at i, a query. It must begin at j, a key.": Backward(
        keys=lambda i, j, block: slice(i, i + block)
    ),
    "D is the sum of dO over the row, without the output. It should be rowsum(dO ∘ O).": Backward(
        delta=lambda g, out: g.sum(-1, keepdim=True)
    ),
    "D is the mean of dO ∘ O over the row. It must be the sum.": Backward(
        delta=lambda g, out: (g * out).mean(-1, keepdim=True)
    ),
    "D is added. If one score rises, the other weights of its row fall, so D must be subtracted.": (
        Backward(grad_s=lambda p, dp, delta, factors: p * (dp + delta))
    ),
    "P is missing as a factor: dS is not dP - D, but P ∘ (dP - D).": Backward(
        grad_s=lambda p, dp, delta, factors: dp - delta
    ),
    "backward leaves out the softmax: it uses dP as the gradient of the scores.": Backward(
        grad_s=lambda p, dp, delta, factors: dp
    ),
    "P ∘ (1 - P) is the derivative of each weight with respect to its own score. What about the "
    "other scores of the row?": Backward(grad_s=lambda p, dp, delta, factors: p * (1 - p) * dp),
}
