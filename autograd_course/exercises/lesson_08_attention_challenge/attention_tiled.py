"""Tier 4: tiles

1. First write forward without the causal mask and without dropout. For each block of queries, loop
   over the blocks of keys and update a running maximum, a running sum and a running output. What
   must happen to the sum and the output when the maximum rises?
2. Multiply them by exp(old maximum - new maximum). Backward needs no running values, because it
   knows L. For each tile, it recomputes P = exp(S - L) and adds the tile's share to dQ of its
   queries and to dK and dV of its keys. The causal mask and dropout depend on the positions in the
   whole sequence, i + row and j + column.
3. F is the dropout factor of a tile. The running sum counts the weights before dropout, and the
   output adds (F ∘ W) V. In backward, dV += (F ∘ P)ᵀ dO, dP = F ∘ (dO Vᵀ), dS = P ∘ (dP - D) with D
   = rowsum(dO ∘ O), dQ += dS K / √E, dK += dSᵀ Q / √E.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from autograd_course.exercises.lesson_08_attention_challenge._constraints import (
    BLOCK,
    FLOAT64,
    LONG,
    OWN_WORK,
    lean,
    rows,
)
from autograd_course.exercises.lesson_08_attention_challenge._gradient_mistakes import (
    WITHOUT_DELTA,
    Grads,
    mistaken,
    through,
    without_delta,
)
from autograd_course.exercises.lesson_08_attention_challenge._inputs import drawn
from autograd_course.exercises.lesson_08_attention_challenge._references import scores, weights
from autograd_course.functions.attention import dropped
from autograd_course.grader.checks import makes_at_most, on, peaks_at_most
from autograd_course.grader.exercise import FunctionExercise


def tiled(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool = False,
    dropout_p: float = 0.0,
    seed: int = 0,
    block: int = 16,
) -> Tensor:
    """Return attention, causal or not, with dropout by :func:`dropped`."""
    n, m = q.shape[-2], k.shape[-2]
    seen = torch.ones(n, m, dtype=torch.bool).tril() if causal else None
    p = weights(q, k, seen)
    gone = dropped(torch.arange(n), torch.arange(m), dropout_p, seed)
    return p.masked_fill(gone, 0) / (1 - dropout_p) @ v if dropout_p else p @ v


SEED = 5  # takes some weights of each row, leaves some, and not those of seed 0 (3 does)


def pattern(q: Tensor, k: Tensor, dropout_p: float, seed: int) -> Tensor:
    """Return what dropout multiplies each weight by: 0, or 1 / (1 - p)."""
    return _pattern(torch.arange(q.shape[-2]), torch.arange(k.shape[-2]), q, dropout_p, seed)


def _pattern(rows: Tensor, columns: Tensor, like: Tensor, dropout_p: float, seed: int) -> Tensor:
    if not dropout_p:
        return like.new_ones(())
    return (~dropped(rows, columns, dropout_p, seed)).to(like.dtype) / (1 - dropout_p)


def triangle(q: Tensor, k: Tensor, causal: bool, by: int = 0) -> Tensor | None:
    """Return the causal mask, moved by some keys; ``None`` where nothing is hidden."""
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(by)
    return seen if causal else None


def _causal_moved(by: int) -> Callable[..., Tensor]:
    def moved(
        q: Tensor, k: Tensor, v: Tensor, causal: bool, dropout_p: float, seed: int, *_: Any
    ) -> Tensor:
        p = torch.softmax(scores(q, k, triangle(q, k, causal, by)), -1)
        return p * pattern(q, k, dropout_p, seed) @ v

    return moved


def _causal_by_tile(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, dropout_p: float, seed: int, block: int
) -> Tensor:
    rows, columns = (torch.arange(x.shape[-2]) % block for x in (q, k))
    p = weights(q, k, columns <= rows[:, None] if causal else None)
    return p * pattern(q, k, dropout_p, seed) @ v


def _causal_by_tile_below(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, dropout_p: float, seed: int, block: int
) -> Tensor:
    """Return the same where tiles beyond the diagonal are skipped."""
    rows, columns = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
    seen = (columns % block <= rows % block) & (columns // block <= rows // block)
    return weights(q, k, seen if causal else None) * pattern(q, k, dropout_p, seed) @ v


def _dropout_by_tile(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, dropout_p: float, seed: int, block: int
) -> Tensor:
    rows, columns = (torch.arange(x.shape[-2]) % block for x in (q, k))
    return weights(q, k, triangle(q, k, causal)) * _pattern(rows, columns, q, dropout_p, seed) @ v


def _online(*, sums: bool = True, outputs: bool = True, divided: bool = True) -> Callable[..., Any]:
    """Return the online softmax with one of its steps left out."""

    def mistaken(
        q: Tensor, k: Tensor, v: Tensor, causal: bool, dropout_p: float, seed: int, block: int
    ) -> Tensor:
        s, factors = scores(q, k, triangle(q, k, causal)), pattern(q, k, dropout_p, seed)
        factors = factors.expand(s.shape)
        high = s.new_full((*s.shape[:-1], 1), -math.inf)
        total, out = torch.zeros_like(high), 0 * (q @ k.mT @ v)
        for j in range(0, k.shape[-2], block):
            tile = slice(j, j + block)
            before, high = high, torch.maximum(high, s[..., tile].amax(-1, keepdim=True))
            factor, w = torch.exp(before - high), torch.exp(s[..., tile] - high)
            total = total * (factor if sums else 1) + w.sum(-1, keepdim=True)
            out = out * (factor if outputs else 1) + w * factors[..., tile] @ v[..., tile, :]
        return out / total if divided else out

    return mistaken


def _renormalized(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, dropout_p: float, seed: int, *_: Any
) -> Tensor:
    p = weights(q, k, triangle(q, k, causal)) * pattern(q, k, dropout_p, seed)
    return p / p.sum(-1, keepdim=True) @ v


TILED_SUSPECTS: Mapping[str, Callable[..., Tensor]] = {
    "The running sum is rescaled when the maximum rises, the running output is not: it was summed "
    "with the same old maximum.": _online(outputs=False),
    "The running output is rescaled when the maximum rises, the running sum is not: it was summed "
    "with the same old maximum.": _online(sums=False),
    "When a tile brings a new maximum, what was summed before is still measured from the old one. "
    "By which factor do the two differ?": _online(sums=False, outputs=False),
    "That is the running output as it stands after the last tile: what is left to divide by?": (
        _online(divided=False)
    ),
    "The weights are divided by the sum of those that dropout leaves: the softmax comes first, and "
    "its sum counts every weight.": _renormalized,
    "Nothing is dropped: which weights go is what dropout_factor says.": (
        lambda q, k, v, causal, dropout_p, seed, block: tiled(q, k, v, causal)
    ),
    "The pattern of dropout is another seed's: hand the argument on.": (
        lambda q, k, v, causal, dropout_p, seed, block: tiled(q, k, v, causal, dropout_p, 0)
    ),
    "Every tile drops what the first one does: dropout_factor asks for the numbers that the tile's "
    "first query and first key have in the whole sequence.": _dropout_by_tile,
    "Each query sees all keys: with causal=True it is to see those up to its own.": (
        lambda q, k, v, causal, dropout_p, seed, block: tiled(q, k, v, False, dropout_p, seed)
    ),
    "A query does not see its own key: causal means keys up to and including i.": _causal_moved(-1),
    "Each query sees one key too many: causal means keys up to i.": _causal_moved(1),
    "The causal mask of the first tile is used in all of them: compare the numbers that queries "
    "and keys have in the whole sequence, not in their tile.": _causal_by_tile,
    "The causal mask of the first tile is used in each that is visited: compare the numbers that "
    "queries and keys have in the whole sequence, not in their tile.": _causal_by_tile_below,
}


def _tiled(inputs: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weights, what dropout makes of them, and the gradient of the scores: all right."""
    q, k, v, causal, dropout_p, seed, _ = inputs
    p, factors = weights(q, k, triangle(q, k, causal)), pattern(q, k, dropout_p, seed)
    delta = (g * tiled(*inputs)).sum(-1, keepdim=True)
    return p, factors * p, p * (factors * (g @ v.mT) - delta)


def _delta_of_tile(inputs: Any, g: Tensor) -> Grads:
    q, k, v, _, dropout_p, seed, block = inputs
    p, mixed, _ = _tiled(inputs, g)
    grad_p = pattern(q, k, dropout_p, seed) * (g @ v.mT)
    tiles = (p * grad_p).split(block, -1)
    delta = torch.cat([t.sum(-1, keepdim=True).expand(t.shape) for t in tiles], -1)
    return through(q, k, v, mixed, p * (grad_p - delta), g)


def _all_keys(inputs: Any, g: Tensor) -> Grads:
    q, k, v, causal, dropout_p, seed, _ = inputs
    s, factors = scores(q, k), pattern(q, k, dropout_p, seed)
    lse = torch.logsumexp(scores(q, k, triangle(q, k, causal)), -1, keepdim=True)
    p, delta = torch.exp(s - lse), (g * tiled(*inputs)).sum(-1, keepdim=True)
    return through(q, k, v, factors * p, p * (factors * (g @ v.mT) - delta), g)


def _tiled_from_sum_alone(inputs: Any, g: Tensor) -> Grads:
    q, k, v, causal, dropout_p, seed, _ = inputs
    p, factors = weights(q, k, triangle(q, k, causal)), pattern(q, k, dropout_p, seed)
    p = p * scores(q, k, triangle(q, k, causal)).amax(-1, keepdim=True).exp()
    delta = (g * tiled(*inputs)).sum(-1, keepdim=True)
    return through(q, k, v, factors * p, p * (factors * (g @ v.mT) - delta), g)


def _last_share(inputs: Any, g: Tensor, *, of_queries: bool) -> Grads:
    """Return the gradients where the last tile's share replaces those before it."""
    (q, k, v), block = inputs[:3], inputs[-1]
    _, mixed, grad_s = _tiled(inputs, g)
    grads = through(q, k, v, mixed, grad_s, g)
    if of_queries:
        j = (k.shape[-2] - 1) // block * block
        late = through(q, k[..., j:, :], v[..., j:, :], mixed[..., j:], grad_s[..., j:], g)
        return late[0], *grads[1:]
    i = (q.shape[-2] - 1) // block * block
    late = through(q[..., i:, :], k, v, mixed[..., i:, :], grad_s[..., i:, :], g[..., i:, :])
    return grads[0], *late[1:]


def _last_share_of_keys(inputs: Any, g: Tensor) -> Grads:
    """Return the gradients where that happens to k alone."""
    (q, k, v), (_, mixed, grad_s) = inputs[:3], _tiled(inputs, g)
    grad_q, _, grad_v = through(q, k, v, mixed, grad_s, g)
    return grad_q, _last_share(inputs, g, of_queries=False)[1], grad_v


def _with_dropout(inputs: Any, g: Tensor, *, in_values: bool, in_scores: bool) -> Grads:
    """Return the gradients where the pattern is used in one place only."""
    q, k, v, causal, dropout_p, seed, _ = inputs
    p, factors = weights(q, k, triangle(q, k, causal)), pattern(q, k, dropout_p, seed)
    delta = (g * tiled(*inputs)).sum(-1, keepdim=True)
    grad_p = (factors if in_scores else 1) * (g @ v.mT)
    return through(q, k, v, (factors if in_values else 1) * p, p * (grad_p - delta), g)


TILED_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    WITHOUT_DELTA: mistaken(
        tiled, lambda inputs, g: without_delta(inputs[:3], g) if not inputs[3] else ()
    ),
    "The dropout pattern is in dV, but not in dP: a weight that is dropped passes nothing back.": (
        mistaken(tiled, lambda i, g: _with_dropout(i, g, in_values=True, in_scores=False))
    ),
    "The dropout pattern is in dP, but not in dV: a value is read with the weight that is left.": (
        mistaken(tiled, lambda i, g: _with_dropout(i, g, in_values=False, in_scores=True))
    ),
    "Backward knows nothing of dropout.": mistaken(
        tiled, lambda i, g: _with_dropout(i, g, in_values=False, in_scores=False)
    ),
    "D is summed over one tile's keys, not over all: rowsum(dO ∘ O) has the whole row in it.": (
        mistaken(tiled, _delta_of_tile)
    ),
    "Backward rebuilds the weights without the causal mask.": mistaken(tiled, _all_keys),
    "The weights that backward rebuilds are not those of forward: a row of them does not sum to "
    "1. Is the running maximum part of the L that you keep?": (
        mistaken(tiled, _tiled_from_sum_alone)
    ),
    "dQ holds what the last block of keys sends: every tile adds its share to what is there.": (
        mistaken(tiled, lambda i, g: _last_share(i, g, of_queries=True))
    ),
    "dK holds what the last block of queries sends: every tile adds its share to what is there.": (
        mistaken(tiled, _last_share_of_keys)
    ),
    "dK and dV hold what the last block of queries sends: every tile adds its share to what is "
    "there.": mistaken(tiled, lambda i, g: _last_share(i, g, of_queries=False)),
}

FEW, FINE = 24, 2


def tile_budget(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> int:
    """Return the bytes of the largest input, or of four tiles if that is more."""
    block: int = rest[-1]
    return FLOAT64 * max(4 * block**2, *(x.numel() for x in (q, k, v)))


def half_of_the_scores(q: Tensor, k: Tensor, *rest: Any) -> int:
    """Return the bytes of every second score."""
    return FLOAT64 * q.shape[-2] * k.shape[-2] // 2


def tiled_rows() -> tuple[Any, ...]:
    """Return :func:`rows` with everything that the tiled exercise can be asked for."""
    return (*rows(), True, 0.25, 3, BLOCK)


def finely_tiled_rows() -> tuple[Any, ...]:
    """Return a few of them with tiles so small that others, of :data:`BLOCK`, are too large."""
    return (*(x[..., :FEW, :].clone() for x in rows()), True, 0.25, 3, FINE)


tiles_only = on(
    tiled_rows,
    makes_at_most(
        tile_budget, f"as much as q has, or four tiles of {BLOCK}×{BLOCK}, for {LONG} queries"
    ),
    lean,
)

few_tiles_at_once = on(
    tiled_rows, peaks_at_most(half_of_the_scores, f"half of what all {LONG}×{LONG} scores take")
)

fine_tiles_only = on(
    finely_tiled_rows,
    makes_at_most(tile_budget, f"as much as q has, for {FEW} queries and block={FINE}"),
)

EXERCISE = FunctionExercise(
    answer="TiledAttention",
    points=5,
    difficulty="hard",
    minutes=55,
    section="A softmax in pieces",
    constraints="no tensor is larger than the inputs or a few tiles, and few tiles are there at "
    "once, forward and backward",
    reference=tiled,
    samplers={
        "4 queries, 4 keys, tiles of 2×2": lambda rng: (*drawn(rng), False, 0.0, 0, 2),
        "causal, two heads, tiles that do not divide": lambda rng: (
            *drawn(rng, 1, 2, n=3, m=3),
            True,
            0.0,
            0,
            2,
        ),
        "dropout": lambda rng: (*drawn(rng, n=2, m=3), False, 0.4, SEED, 2),
    },
    suspects=TILED_SUSPECTS,
    gradient_suspects=TILED_GRADIENTS,
    double_backward=False,
    checks=(*OWN_WORK, tiles_only, few_tiles_at_once, fine_tiles_only),
    seconds=20.0,  # each pass is a loop of small operations, and the doctor makes hundreds
)
