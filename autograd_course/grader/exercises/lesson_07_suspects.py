"""The mistakes that people make in attention's forward, each with what to tell them."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.attention import dropped
from autograd_course.grader.exercises.lesson_07_references import attend, scores, tiled, weights


def _over_queries(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return torch.softmax(scores(q, k, mask), -2) @ v


def _unscaled(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return torch.softmax(scores(q, k, mask, 1.0), -1) @ v


def _scaled_twice(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return torch.softmax(scores(q, k, mask, 1 / q.shape[-1]), -1) @ v


def _unshifted(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    exponentials = scores(q, k, mask).exp()
    return exponentials / exponentials.sum(-1, keepdim=True) @ v


def _empty_rows_nan(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return torch.softmax(scores(q, k, mask), -1) @ v


def _masked_late(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    p = torch.softmax(scores(q, k), -1)
    if mask is None:
        return p @ v
    return (p * mask if mask.dtype == torch.bool else p + mask) @ v


def _inverted(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    boolean = mask is not None and mask.dtype == torch.bool
    return torch.softmax(scores(q, k, ~mask if boolean and mask is not None else mask), -1) @ v


def _hardly_masked(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    if mask is None or mask.dtype != torch.bool:
        return attend(q, k, v, None if mask is None else mask.clamp(min=-1e9))
    return torch.softmax(scores(q, k).masked_fill(~mask, -1e9), -1) @ v


def _added(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    return attend(q, k, v, None if mask is None else mask.to(q.dtype))


SUSPECTS: Mapping[str, Callable[..., Tensor]] = {
    "The softmax runs over the queries: each query's weights are to sum to 1 over the keys, the "
    "last axis of the scores.": _over_queries,
    "The scores are not divided by √E.": _unscaled,
    "The scores are divided by E, not by its square root.": _scaled_twice,
    "That is what masking after the softmax gives: the weights that stay no longer sum to 1. Hide "
    "the scores before.": _masked_late,
    "The boolean mask is read the other way round: True means that the query sees the key.": (
        _inverted
    ),
    "A boolean mask is added to the scores as 0 and 1: it is to hide the keys where it is "
    "False.": _added,
    "A large negative number hides nothing where all scores of a row have it: their softmax is "
    "uniform. What is the sum of the weights in that row to be?": _hardly_masked,
    "In a row of -∞ only, the largest score is -∞ too, and -∞ - (-∞) is nan. What would leave "
    "the exponentials at 0?": _empty_rows_nan,
    "exp of a large score overflows. Which number may be subtracted from all scores of a row "
    "without changing its softmax?": _unshifted,
}


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


def _repeated_in_turn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    lead = [1] * (k.dim() - 3)
    return attend(q, *(x.repeat(*lead, q.shape[-3] // x.shape[-3], 1, 1) for x in (k, v)))


GROUPED_SUSPECTS: Mapping[str, Callable[..., Tensor]] = {
    "Query heads read the key heads in turn, 0 1 0 1: asked for is 0 0 1 1, neighbors share.": (
        _repeated_in_turn
    ),
}

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
