"""Attention in PyTorch's own operations: the truth of the exercises of lesson 07."""

import math

import torch
from torch import Tensor

from autograd_course.functions.attention import dropped


def scores(q: Tensor, k: Tensor, mask: Tensor | None = None, scale: float | None = None) -> Tensor:
    """Return ``Q Kᵀ / √E``, ``-∞`` where a boolean mask is False, a floating mask added."""
    s = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if mask is None:
        return s
    # Added, not filled in: a nan stays a nan in hidden places too, and answers may do as they like.
    return s + (torch.where(mask, 0.0, -math.inf) if mask.dtype == torch.bool else mask)


def weights(q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the softmax of the rows of scores, zeros in a row that the mask hides altogether.

    A row is empty because of its mask, never because scores happen to be ``-∞``: those are nan.
    """
    s = scores(q, k, mask)
    if mask is None:
        return torch.softmax(s, -1)
    hidden = ~mask if mask.dtype == torch.bool else mask == -math.inf
    empty = hidden.all(-1, keepdim=True)
    return torch.softmax(s.masked_fill(empty, 0), -1).masked_fill(empty, 0)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return ``softmax(Q Kᵀ / √E + mask) V``, zeros for a query that sees no key."""
    return weights(q, k, mask) @ v


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


def with_lse(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return attention and the log-sum-exp of each row of scores."""
    return attend(q, k, v), torch.logsumexp(scores(q, k), -1)


def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return attention in which several heads of queries read one head of keys and values."""
    shared = q.shape[-3] // k.shape[-3]
    return attend(q, k.repeat_interleave(shared, -3), v.repeat_interleave(shared, -3))
