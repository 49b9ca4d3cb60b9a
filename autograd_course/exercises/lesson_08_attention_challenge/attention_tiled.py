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
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

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
    through,
    without_delta,
)
from autograd_course.exercises.lesson_08_attention_challenge._inputs import drawn
from autograd_course.exercises.lesson_08_attention_challenge._references import scores, weights
from autograd_course.exercises.lesson_08_attention_challenge._tiles import BACKWARD, FORWARD
from autograd_course.functions.attention import dropped
from autograd_course.grader.checks import makes_at_most, on, peaks_at_most
from autograd_course.grader.checks.calling import applied, backward, found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.suspecting import Grads, mistaken


def tiled(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool = False,
    dropout_p: float = 0.0,
    seed: int = 0,
    block: int = 16,
) -> Tensor:
    """Compute attention, optionally causal, with the dropout pattern of :func:`dropped`."""
    n, m = q.shape[-2], k.shape[-2]
    seen = torch.ones(n, m, dtype=torch.bool).tril() if causal else None
    p = weights(q, k, seen)
    gone = dropped(torch.arange(n), torch.arange(m), dropout_p, seed)
    return p.masked_fill(gone, 0) / (1 - dropout_p) @ v if dropout_p else p @ v


SEED = 5  # drops some weights of each row, but not the same ones as seed 0


def pattern(q: Tensor, k: Tensor, dropout_p: float, seed: int) -> Tensor:
    """Return the factor by which dropout multiplies each weight: 0 or 1 / (1 - p)."""
    return _pattern(torch.arange(q.shape[-2]), torch.arange(k.shape[-2]), q, dropout_p, seed)


def _pattern(rows: Tensor, columns: Tensor, like: Tensor, dropout_p: float, seed: int) -> Tensor:
    if not dropout_p:
        return like.new_ones(())
    return (~dropped(rows, columns, dropout_p, seed)).to(like.dtype) / (1 - dropout_p)


def triangle(q: Tensor, k: Tensor, causal: bool, by: int = 0) -> Tensor | None:
    """Return the causal mask, shifted by ``by`` keys, or None if ``causal`` is False."""
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
    """Return an output in which each tile up to the diagonal uses the first tile's causal mask."""
    rows, columns = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
    seen = (columns % block <= rows % block) & (columns // block <= rows // block)
    return weights(q, k, seen if causal else None) * pattern(q, k, dropout_p, seed) @ v


def _dropout_by_tile(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, dropout_p: float, seed: int, block: int
) -> Tensor:
    rows, columns = (torch.arange(x.shape[-2]) % block for x in (q, k))
    return weights(q, k, triangle(q, k, causal)) * _pattern(rows, columns, q, dropout_p, seed) @ v


def _online(*, sums: bool = True, outputs: bool = True, divided: bool = True) -> Callable[..., Any]:
    """Return an online softmax that omits some of the rescaling steps."""

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
    "When the maximum rises, you rescale the running sum but not the running output. Both were "
    "computed with the old maximum.": _online(outputs=False),
    "When the maximum rises, you rescale the running output but not the running sum. Both were "
    "computed with the old maximum.": _online(sums=False),
    "When a tile raises the maximum, the running sum and output are still relative to the old "
    "maximum. By which factor do you have to multiply them?": _online(sums=False, outputs=False),
    "This is the running output after the last tile. What do you still have to divide it by?": (
        _online(divided=False)
    ),
    "You divide the weights by the sum of the weights that dropout leaves. The softmax comes "
    "before dropout, so its sum counts every weight.": _renormalized,
    "No weight is dropped. Multiply the weights of each tile by its dropout_factor.": (
        lambda q, k, v, causal, dropout_p, seed, block: tiled(q, k, v, causal)
    ),
    "The dropout pattern belongs to another seed. Pass the argument seed on.": (
        lambda q, k, v, causal, dropout_p, seed, block: tiled(q, k, v, causal, dropout_p, 0)
    ),
    "Every tile has the dropout pattern of the first tile. dropout_factor expects the positions of "
    "the tile's first query and first key in the whole sequence.": _dropout_by_tile,
    "Each query sees all keys. With causal=True query i must see only the keys 0 to i.": (
        lambda q, k, v, causal, dropout_p, seed, block: tiled(q, k, v, False, dropout_p, seed)
    ),
    "Query i does not see key i. With causal=True it sees the keys 0 to i.": _causal_moved(-1),
    "Each query sees one key too many. With causal=True query i sees the keys 0 to i.": (
        _causal_moved(1)
    ),
    "You use the causal mask of the first tile in all tiles. Compare the positions of queries and "
    "keys in the whole sequence, not in their tile.": _causal_by_tile,
    "You use the causal mask of the first tile in each tile that you visit. Compare the positions "
    "of queries and keys in the whole sequence, not in their tile.": _causal_by_tile_below,
}


def _tiled(inputs: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weights, the weights after dropout, and the gradient of the scores."""
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
    """Return gradients in which the last tile's contribution replaces the earlier contributions."""
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
    """Return gradients in which the gradient of k contains only the last tile's contribution."""
    (q, k, v), (_, mixed, grad_s) = inputs[:3], _tiled(inputs, g)
    grad_q, _, grad_v = through(q, k, v, mixed, grad_s, g)
    return grad_q, _last_share(inputs, g, of_queries=False)[1], grad_v


def _with_dropout(inputs: Any, g: Tensor, *, in_values: bool, in_scores: bool) -> Grads:
    """Return the gradients of a backward that omits the dropout pattern in dV, dP, or both."""
    q, k, v, causal, dropout_p, seed, _ = inputs
    p, factors = weights(q, k, triangle(q, k, causal)), pattern(q, k, dropout_p, seed)
    delta = (g * tiled(*inputs)).sum(-1, keepdim=True)
    grad_p = (factors if in_scores else 1) * (g @ v.mT)
    return through(q, k, v, (factors if in_values else 1) * p, p * (grad_p - delta), g)


TILED_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    WITHOUT_DELTA: mistaken(
        tiled, lambda inputs, g: without_delta(inputs[:3], g) if not inputs[3] else ()
    ),
    "The dropout pattern is in dV but not in dP. A dropped weight has the gradient 0.": (
        mistaken(tiled, lambda i, g: _with_dropout(i, g, in_values=True, in_scores=False))
    ),
    "The dropout pattern is in dP but not in dV. Forward multiplies V by the dropped weights.": (
        mistaken(tiled, lambda i, g: _with_dropout(i, g, in_values=False, in_scores=True))
    ),
    "Backward does not use the dropout pattern.": mistaken(
        tiled, lambda i, g: _with_dropout(i, g, in_values=False, in_scores=False)
    ),
    "D is summed over the keys of one tile. rowsum(dO ∘ O) gives the sum over all keys.": (
        mistaken(tiled, _delta_of_tile)
    ),
    "Backward recomputes the weights without the causal mask.": mistaken(tiled, _all_keys),
    "The weights that backward recomputes differ from those of forward: the rows do not sum to 1. "
    "Does the L that you save include the running maximum?": (
        mistaken(tiled, _tiled_from_sum_alone)
    ),
    "dQ contains only the share of the last block of keys. Add the share of every tile.": (
        mistaken(tiled, lambda i, g: _last_share(i, g, of_queries=True))
    ),
    "dK contains only the share of the last block of queries. Add the share of every tile.": (
        mistaken(tiled, _last_share_of_keys)
    ),
    "dK and dV contain only the share of the last block of queries. Add the share of every tile.": (
        mistaken(tiled, lambda i, g: _last_share(i, g, of_queries=False))
    ),
}

FEW, FINE = 24, 2


def tile_budget(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> int:
    """Return the maximum of the largest input's size and the size of four tiles, in bytes."""
    block: int = rest[-1]
    return FLOAT64 * max(4 * block**2, *(x.numel() for x in (q, k, v)))


def half_of_the_scores(q: Tensor, k: Tensor, *rest: Any) -> int:
    """Return half the size of the whole score matrix, in bytes."""
    return FLOAT64 * q.shape[-2] * k.shape[-2] // 2


def tiled_rows(rng: torch.Generator) -> tuple[Any, ...]:
    """Return the tensors of :func:`rows`, and the settings for a causal mask and dropout."""
    return (*rows(rng), True, 0.25, 3, BLOCK)


def finely_tiled_rows(rng: torch.Generator) -> tuple[Any, ...]:
    """Return fewer rows and a block so small that a tile of size :data:`BLOCK` is too large."""
    return (*(x[..., :FEW, :].clone() for x in rows(rng)), True, 0.25, 3, FINE)


tiles_only = on(
    tiled_rows,
    makes_at_most(
        tile_budget, f"as much as q has, or four tiles of {BLOCK}×{BLOCK}, for {LONG} queries"
    ),
)

lean_tiles = on(tiled_rows, lean)

few_tiles_at_once = on(
    tiled_rows, peaks_at_most(half_of_the_scores, f"half of the memory of all {LONG}×{LONG} scores")
)

fine_tiles_only = on(
    finely_tiled_rows,
    makes_at_most(tile_budget, f"as much as q has, for {FEW} queries and block={FINE}"),
)


def overflowing_rows(function: type[Function], _: tuple[Any, ...]) -> Finding | None:
    """Find the rows that are nan for large scores. They reveal which number forward subtracts."""
    key = torch.tensor([[1.0], [1.001]], dtype=torch.float64)
    top = torch.tensor([[900.0], [1.0], [-900.0], [-950.0]], dtype=torch.float64)
    output: Any = function.apply(top, key, key, False, 0.0, 0, 2)
    rows = output[..., 0].isnan().nonzero().flatten().tolist()
    sentence = OVERFLOWS.get(tuple(rows))
    return found("overflow", "forward overflows.", {"rows": rows}, sentence) if sentence else None


# The scores of the four queries are near 900, 1, -900 and -950, and a tile has two queries.
OVERFLOWS = {
    (1,): "You subtract the largest score of the whole tile. If all scores of a row are far below "
    "it, their exponentials are all 0, and 0 / 0 is nan. Each row has its own maximum.",
    (1, 2, 3): "You subtract the largest score of the whole matrix. If all scores of a row are far "
    "below it, their exponentials are all 0, and 0 / 0 is nan. Each row has its own maximum.",
    (2, 3): "The running maximum begins at 0. If all scores of a row are far below 0, their "
    "exponentials are all 0, and 0 / 0 is nan. Begin at -∞.",
    (0, 2, 3): "The exponentials of large scores overflow, and those of very negative ones are all "
    "0. Subtract the running maximum of each row.",
}


def joined_elsewhere(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check whether forward joins the blocks of queries along another dim."""
    try:
        applied(function, inputs)
    except RuntimeError as error:
        if "must match except in dimension" in str(error):
            return found(
                "forward-raises",
                "forward raises.",
                {},
                "The blocks of queries lie along dim -2, in front of the features. Join them along "
                "this dim, however many leading dims there are.",
            )
    return None


def other_shapes(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check whether backward combines tensors whose shapes do not match those of a tile."""
    try:
        backward(applied(function, inputs)[1])
    except RuntimeError as error:
        if any(words in str(error) for words in ("size of tensor", "shapes cannot be")):
            return found(
                "backward-raises",
                "backward raises.",
                {},
                "In a tile of r queries and c keys, P, dP and dS have the shape (r, c), L and D "
                "have (r, 1), and the share of dV has (c, F). Which one is different in this line?",
            )
    return None


EXERCISE = FunctionExercise(
    answer="TiledAttention",
    points=5,
    difficulty="hard",
    minutes=55,
    section="A softmax in pieces",
    needs_sections=("Backward in pieces", "Dropout without a mask"),
    constraints="no tensor is larger than the inputs or a few tiles, and only a few tiles exist at "
    "once, in forward and in backward",
    reference=tiled,
    samplers={
        "3 queries, 7 keys, tiles of 2×2": lambda rng: (
            *drawn(rng, n=3, m=7),
            False,
            0.0,
            0,
            2,
        ),
        "causal, two heads, tiles of 2×2": lambda rng: (
            *drawn(rng, 1, 2, n=3, m=3),
            True,
            0.0,
            0,
            2,
        ),
        "dropout": lambda rng: (*drawn(rng, n=2, m=3), False, 0.4, SEED, 2),
    },
    suspects={**TILED_SUSPECTS, **FORWARD},
    gradient_suspects={
        **TILED_GRADIENTS,
        **{sentence: mistaken(tiled, backward) for sentence, backward in BACKWARD.items()},
    },
    double_backward=False,
    checks=(*OWN_WORK, tiles_only, lean_tiles, few_tiles_at_once, fine_tiles_only),
    causes=(overflowing_rows, joined_elsewhere, other_shapes),
    seconds=20.0,  # each pass is a loop of small operations, and diagnose runs hundreds of passes
)
