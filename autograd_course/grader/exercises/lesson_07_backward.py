"""The mistakes that people make in attention's backward, each with what to tell them."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.exercises.lesson_07_references import (
    attend,
    grouped,
    scores,
    tiled,
    weights,
    with_lse,
)
from autograd_course.grader.exercises.lesson_07_suspects import pattern, triangle

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


def _delta_as_row(inputs: Any, g: Tensor) -> Grads:
    q, k, v, *mask = inputs
    p, grad_p = weights(q, k, *mask), g @ v.mT
    return through(q, k, v, p, p * (grad_p - (p * grad_p).sum(-1)), g)


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


def _unmasked_infinite(inputs: Any, g: Tensor) -> Grads:
    q, k, v, mask = inputs
    p = torch.exp(scores(q, k) - torch.logsumexp(scores(q, k, mask), -1, keepdim=True))
    delta = (g * attend(q, k, v, mask)).sum(-1, keepdim=True)
    return through(q, k, v, p, p * (g @ v.mT - delta), g)


def _empty_rows_nan(inputs: Any, g: Tensor) -> Grads:
    q, k, v, *mask = inputs
    s = scores(q, k, *mask)
    p = torch.exp(s - torch.logsumexp(s, -1, keepdim=True))
    delta = (g * attend(*inputs)).sum(-1, keepdim=True)
    return through(q, k, v, p, p * (g @ v.mT - delta), g)


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


def _lse(inputs: Any, g: Tensor, grad_lse: Tensor, sign: int) -> Grads:
    q, k, v = inputs
    p = weights(q, k)
    delta = (g * (p @ v)).sum(-1) - sign * grad_lse
    return through(q, k, v, p, p * (g @ v.mT - delta.unsqueeze(-1)), g)


def _lse_as_row(inputs: Any, g: Tensor, grad_lse: Tensor) -> Grads:
    q, k, v = inputs
    p = weights(q, k)
    delta = (g * (p @ v)).sum(-1, keepdim=True) - grad_lse
    return through(q, k, v, p, p * (g @ v.mT - delta), g)


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
    "The row sum D has lost its axis, and is subtracted along the keys: it is one number for each "
    "query, a column.": mistaken(attend, _delta_as_row),
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
    "Backward rebuilds the weights without the mask: in a row that sees no key, L is -∞, and they "
    "are infinite.": mistaken(attend, _unmasked_infinite),
    "In a row that sees no key, S and L are both -∞, and S - L is nan. What would leave the "
    "weights of this row at 0?": mistaken(attend, _empty_rows_nan),
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
LSE_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "What arrives for the second output, the log-sum-exp, is not used. It reaches the scores: "
    "∂L/∂S is P.": mistaken(with_lse, lambda i, g, grad_lse: _lse(i, g, grad_lse, 0)),
    "What arrives for the log-sum-exp is added along the keys: it has one number for each query, "
    "and needs an axis at the end.": mistaken(with_lse, _lse_as_row),
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
