"""The mistakes that people make in attention's backward, each with what to tell them."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from autograd_course.exercises.lesson_08_attention_challenge._references import (
    attend,
    scores,
    weights,
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


def without_delta(inputs: Any, g: Tensor) -> Grads:
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


WITHOUT_DELTA = (
    "dS = P ∘ dP forgets what the weights of a row share: raise one score, and all other weights "
    "of its row fall. One number D for each row has to be subtracted from dP."
)

GRADIENT_SUSPECTS: Mapping[str, Callable[..., Any]] = {
    WITHOUT_DELTA: mistaken(attend, without_delta),
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
