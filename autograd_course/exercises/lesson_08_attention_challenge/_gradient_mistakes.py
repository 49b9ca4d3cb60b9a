"""Common mistakes in the backward of attention, each with the message that the grader shows."""

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
    """Return the ``apply`` of a Function that combines the correct forward with ``backward``."""

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
    """Return the gradients of q, k and v, given the weights and the gradient of the scores."""
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


def _elementwise(inputs: Any, g: Tensor) -> Grads:
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


def _masked_rows_nan(inputs: Any, g: Tensor) -> Grads:
    q, k, v, *mask = inputs
    s = scores(q, k, *mask)
    p = torch.exp(s - torch.logsumexp(s, -1, keepdim=True))
    delta = (g * attend(*inputs)).sum(-1, keepdim=True)
    return through(q, k, v, p, p * (g @ v.mT - delta), g)


WITHOUT_DELTA = (
    "dS = P ∘ dP ignores that the weights of a row share one sum. If one score rises, the other "
    "weights of its row fall. Subtract one number D for each row from dP."
)

GRADIENT_SUSPECTS: Mapping[str, Callable[..., Any]] = {
    WITHOUT_DELTA: mistaken(attend, without_delta),
    "D is summed over the queries. The softmax couples the keys of one query, so sum over the "
    "keys.": mistaken(attend, _delta_by_columns),
    "D has lost its last dim, so you subtract it along the keys. It has one number for each query, "
    "so it must be a column.": mistaken(attend, _delta_as_row),
    "D is the sum of dP over the row, without the weights. It should be rowsum(P ∘ dP).": (
        mistaken(attend, _unweighted_delta)
    ),
    "P ∘ (1 - P) is the derivative of each weight with respect to its own score. What about the "
    "other scores of the row?": mistaken(attend, _elementwise),
    "dK is the product of dS and Q without a transpose. Write down the shapes for more queries "
    "than keys.": mistaken(attend, _untransposed),
    "The weights that backward recomputes differ from those of forward: the rows do not sum to 1. "
    "Does the number that you save include the maximum that forward subtracts?": (
        mistaken(attend, _from_sum_alone)
    ),
    "Backward recomputes the weights without the mask.": mistaken(attend, _unmasked),
    "Backward recomputes the weights without the mask. In a fully masked row L is -∞, so they are "
    "infinite.": mistaken(attend, _unmasked_infinite),
    "In a fully masked row S and L are both -∞, and S - L is nan. What can you subtract there so "
    "that the weights are 0?": mistaken(attend, _masked_rows_nan),
}
