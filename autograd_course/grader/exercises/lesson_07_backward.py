"""The mistakes that people make in attention's backward, each with what to tell them."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.functions.attention import dropped
from autograd_course.grader.exercises.lesson_07_references import (
    attend,
    grouped,
    tiled,
    weights,
    with_lse,
)

Grads = tuple[Tensor, ...]


def mistaken(right: Callable[..., Any], backward: Callable[..., Grads]) -> Callable[..., Any]:
    """Return a Function's call with the forward of ``right`` and ``backward(inputs, *grads)``."""

    class Mistaken(Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            ctx.inputs = inputs
            return right(*inputs)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
            found = backward(ctx.inputs, *grads)
            return *found, *[None] * (len(ctx.inputs) - len(found))

    call: Callable[..., Any] = Mistaken.apply
    return call


def through(q: Tensor, k: Tensor, v: Tensor, p: Tensor, grad_s: Tensor, g: Tensor) -> Grads:
    """Return the gradients of q, k, v from those of the scores, all else being right."""
    grad_s = grad_s / math.sqrt(q.shape[-1])
    return grad_s @ k, grad_s.mT @ q, p.mT @ g


def _without_delta(inputs: Any, g: Tensor) -> Grads:
    q, k, v, *mask = inputs
    p = weights(q, k, *mask)
    return through(q, k, v, p, p * (g @ v.mT), g)


def _delta_by_columns(inputs: Any, g: Tensor) -> Grads:
    q, k, v, *mask = inputs
    p, grad_p = weights(q, k, *mask), g @ v.mT
    return through(q, k, v, p, p * (grad_p - (p * grad_p).sum(-2, keepdim=True)), g)


def _unweighted_delta(inputs: Any, g: Tensor) -> Grads:
    q, k, v, *mask = inputs
    p, grad_p = weights(q, k, *mask), g @ v.mT
    return through(q, k, v, p, p * (grad_p - grad_p.sum(-1, keepdim=True)), g)


def _element_wise(inputs: Any, g: Tensor) -> Grads:
    q, k, v, *mask = inputs
    p = weights(q, k, *mask)
    return through(q, k, v, p, p * (1 - p) * (g @ v.mT), g)


def _untransposed(inputs: Any, g: Tensor) -> Grads:
    q, k, v, *mask = inputs
    p, grad_p = weights(q, k, *mask), g @ v.mT
    grad_s = p * (grad_p - (p * grad_p).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
    return grad_s @ k, grad_s @ q, p.mT @ g


def _from_sum_alone(inputs: Any, g: Tensor) -> Grads:
    q, k, v, *mask = inputs
    p = weights(q, k, *mask)
    s = q @ k.mT / math.sqrt(q.shape[-1])
    high = s.amax(-1, keepdim=True)
    unshifted = p * high.exp()
    delta = (g * (p @ v)).sum(-1, keepdim=True)
    return through(q, k, v, unshifted, unshifted * (g @ v.mT - delta), g)


def _unmasked(inputs: Any, g: Tensor) -> Grads:
    q, k, v, mask = inputs
    s = q @ k.mT / math.sqrt(q.shape[-1])
    lse = torch.logsumexp(s.masked_fill(~mask, -math.inf), -1, keepdim=True)
    p = torch.exp(s - lse.masked_fill(lse == -math.inf, 0))
    delta = (g * attend(q, k, v, mask)).sum(-1, keepdim=True)
    return through(q, k, v, p, p * (g @ v.mT - delta), g)


def _with_dropout(inputs: Any, g: Tensor, *, in_values: bool, in_scores: bool) -> Grads:
    """Return the gradients where the pattern is used in one place only."""
    q, k, v, causal, dropout_p, seed, _ = inputs
    n, m = q.shape[-2], k.shape[-2]
    seen = torch.ones(n, m, dtype=torch.bool).tril() if causal else None
    p = weights(q, k, seen)
    gone = dropped(torch.arange(n), torch.arange(m), dropout_p, seed)
    pattern = (~gone if dropout_p else torch.ones_like(gone)).to(p.dtype) / (1 - dropout_p)
    delta = (g * tiled(*inputs)).sum(-1, keepdim=True)
    grad_p = (pattern if in_scores else 1) * (g @ v.mT)
    return through(q, k, v, (pattern if in_values else 1) * p, p * (grad_p - delta), g)


def _lse(inputs: Any, g: Tensor, grad_lse: Tensor, sign: int) -> Grads:
    q, k, v = inputs
    p = weights(q, k)
    delta = (g * (p @ v)).sum(-1) - sign * grad_lse
    return through(q, k, v, p, p * (g @ v.mT - delta.unsqueeze(-1)), g)


def _one_of_group(inputs: Any, g: Tensor) -> Grads:
    (grad_q, *per_head), heads = _per_head(inputs, g), inputs[1].shape[-3]
    return grad_q, *(x.unflatten(-3, (heads, -1))[..., 0, :, :] for x in per_head)


def _of_other_groups(inputs: Any, g: Tensor) -> Grads:
    (grad_q, *per_head), heads = _per_head(inputs, g), inputs[1].shape[-3]
    return grad_q, *(x.unflatten(-3, (-1, heads)).sum(-4) for x in per_head)


def _per_head(inputs: Any, g: Tensor) -> Grads:
    q, *shared = inputs
    k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in shared)
    p, grad_p = weights(q, k), g @ v.mT
    return through(q, k, v, p, p * (grad_p - (p * grad_p).sum(-1, keepdim=True)), g)


WITHOUT_DELTA = (
    "dS = P ∘ dP forgets what the weights of a row share: raise one score, and all other weights "
    "of its row fall. One number D for each row has to be subtracted from dP."
)
GRADIENT_SUSPECTS: Mapping[str, Callable[..., Any]] = {
    WITHOUT_DELTA: mistaken(attend, _without_delta),
    "The row sum D is taken along the queries: the softmax couples the keys of one query.": (
        mistaken(attend, _delta_by_columns)
    ),
    "D is the sum of dP along the row, without the weights: it is rowsum(P ∘ dP).": (
        mistaken(attend, _unweighted_delta)
    ),
    "P ∘ (1 - P) is the derivative of each weight by its own score. What about the other scores "
    "of the row?": mistaken(attend, _element_wise),
    "dK is dS times Q without a transpose: write down the shapes with more queries than keys.": (
        mistaken(attend, _untransposed)
    ),
    "The weights that backward rebuilds are not those of forward: a row of them does not sum to "
    "1. Is the maximum, which forward subtracts, part of what you keep?": (
        mistaken(attend, _from_sum_alone)
    ),
    "Backward rebuilds the weights without the mask.": mistaken(attend, _unmasked),
}
TILED_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    WITHOUT_DELTA: mistaken(
        tiled, lambda inputs, g: _without_delta(inputs[:3], g) if not inputs[3] else ()
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
}
LSE_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "What arrives for the second output, the log-sum-exp, is not used. It reaches the scores: "
    "∂L/∂S is P.": mistaken(with_lse, lambda i, g, grad_lse: _lse(i, g, grad_lse, 0)),
    "What arrives for the log-sum-exp has the wrong sign: L grows with the scores, so it adds.": (
        mistaken(with_lse, lambda i, g, grad_lse: _lse(i, g, grad_lse, -1))
    ),
}
GROUPED_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "Only one head of each group sends its gradient to the keys they share. What of the others?": (
        mistaken(grouped, _one_of_group)
    ),
    "The sum runs over heads that do not share keys: neighbors form a group, so it is the "
    "second part of (heads of keys, group).": mistaken(grouped, _of_other_groups),
}
