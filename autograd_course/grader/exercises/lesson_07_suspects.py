"""The mistakes that people make in attention's forward, each with what to tell them."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from autograd_course.functions.attention import dropped
from autograd_course.grader.exercises.lesson_07_references import attend, scores


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


def _diagonal_hidden(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, *rest: Any) -> Tensor:
    return _shifted_causal(q, k, v, causal, -1)


def _one_ahead(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, *rest: Any) -> Tensor:
    return _shifted_causal(q, k, v, causal, 1)


def _shifted_causal(q: Tensor, k: Tensor, v: Tensor, causal: bool, by: int) -> Tensor:
    seen = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(by)
    return torch.softmax(scores(q, k, seen if causal else None), -1) @ v


def _tilewise_causal(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
    causal, *_, block = rest
    rows, columns = torch.arange(q.shape[-2]), torch.arange(k.shape[-2])
    seen = columns % block <= (rows % block)[:, None]
    return attend(q, k, v, seen if causal else None)


def _output_not_rescaled(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
    return _online(q, k, v, rest[-1], sums=True, outputs=False)


def _nothing_rescaled(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
    return _online(q, k, v, rest[-1], sums=False, outputs=False)


def _online(q: Tensor, k: Tensor, v: Tensor, block: int, *, sums: bool, outputs: bool) -> Tensor:
    """Return what the online softmax gives where one of the two running sums is not rescaled."""
    s = scores(q, k)
    high = s.new_full((*s.shape[:-1], 1), -math.inf)
    total, out = torch.zeros_like(high), 0 * (q @ k.mT @ v)
    for j in range(0, k.shape[-2], block):
        before, high = high, torch.maximum(high, s[..., j : j + block].amax(-1, keepdim=True))
        factor, w = torch.exp(before - high), torch.exp(s[..., j : j + block] - high)
        total = total * (factor if sums else 1) + w.sum(-1, keepdim=True)
        out = out * (factor if outputs else 1) + w @ v[..., j : j + block, :]
    return out / total


def _renormalized(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
    _, dropout_p, seed, _ = rest
    gone = dropped(torch.arange(q.shape[-2]), torch.arange(k.shape[-2]), dropout_p, seed)
    p = torch.softmax(scores(q, k), -1).masked_fill(gone, 0)
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
    "with the same old maximum.": _output_not_rescaled,
    "When a tile brings a new maximum, what was summed before is still measured from the old one. "
    "By which factor do the two differ?": _nothing_rescaled,
    "The weights are divided by the sum of those that dropout leaves: the softmax comes first, and "
    "its sum counts every weight.": _renormalized,
    "A query does not see its own key: causal means keys up to and including i.": _diagonal_hidden,
    "Each query sees one key too many: causal means keys up to i.": _one_ahead,
    "The causal mask of the first tile is used in all of them: compare the numbers that queries "
    "and keys have in the whole sequence, not in their tile.": _tilewise_causal,
}
