"""Common mistakes in attention's backward, each with the message that the grader shows."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from autograd_course.exercises.lesson_08_attention_challenge._references import (
    attend,
    scores,
    weights,
)
from autograd_course.grader.suspecting import Grads, mistaken


def through(q: Tensor, k: Tensor, v: Tensor, p: Tensor, grad_s: Tensor, g: Tensor) -> Grads:
    """Return the gradients of q, k and v from the weights and the gradient of the scores."""
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


def _softmax_by(gradient: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """Return attention in which ``gradient(p, grad_p)`` is the gradient of the scores."""

    def backward(inputs: Any, g: Tensor) -> Grads:
        q, k, v, *mask = inputs
        p = weights(q, k, *mask)
        return through(q, k, v, p, gradient(p, g @ v.mT), g)

    return mistaken(attend, backward)


def _with_delta(delta: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """Return attention whose backward computes D as ``delta(grad_output, output)``."""

    def backward(inputs: Any, g: Tensor) -> Grads:
        q, k, v, *mask = inputs
        p = weights(q, k, *mask)
        return through(q, k, v, p, p * (g @ v.mT - delta(g, attend(*inputs))), g)

    return mistaken(attend, backward)


def _recomputed_by(again: Callable[[Tensor, Tensor, float], Tensor]) -> Callable[..., Any]:
    """Return attention whose backward recomputes the weights as ``again(scores, L, √E)``."""

    def backward(inputs: Any, g: Tensor) -> Grads:
        q, k, v, *mask = inputs
        s = scores(q, k, *mask)
        p = again(s, torch.logsumexp(s, -1, keepdim=True), math.sqrt(q.shape[-1]))
        delta = (g * attend(*inputs)).sum(-1, keepdim=True)
        return through(q, k, v, p, p * (g @ v.mT - delta), g)

    return mistaken(attend, backward)


def _changed(change: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Grads]) -> Any:
    """Return attention whose gradients are ``change(q, k, p, grad_s, grad_output)``.

    ``grad_s`` is right and already divided by √E.
    """

    def backward(inputs: Any, g: Tensor) -> Grads:
        q, k, v, *mask = inputs
        p, grad_p = weights(q, k, *mask), g @ v.mT
        grad_s = p * (grad_p - (p * grad_p).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
        return change(q, k, p, grad_s, g)

    return mistaken(attend, backward)


def _from_scores(inputs: Any, g: Tensor) -> Grads:
    q, k, v, *mask = inputs
    p, grad_p = weights(q, k, *mask), g @ v.mT
    grad_s = p * (grad_p - (p * grad_p).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
    return grad_s @ k, grad_s.mT @ q, scores(q, k, *mask).mT @ g


def _scaled(
    powers: tuple[int, int], q: Tensor, k: Tensor, p: Tensor, grad_s: Tensor, g: Tensor
) -> Grads:
    """Return gradients in which dQ and dK are multiplied by these powers of √E."""
    by_q, by_k = (grad_s * q.shape[-1] ** (power / 2) for power in powers)
    return by_q @ k, by_k.mT @ q, p.mT @ g


def _row_sum(p: Tensor, grad_p: Tensor) -> Tensor:
    return (p * grad_p).sum(-1, keepdim=True)


GRADIENT_SUSPECTS: Mapping[str, Callable[..., Any]] = {
    WITHOUT_DELTA: mistaken(attend, without_delta),
    "D is summed over the queries. The softmax couples the keys of one query, so sum over the "
    "keys.": mistaken(attend, _delta_by_columns),
    "D has lost its last dim, so you subtract it along the keys. It has one number for each query, "
    "so it must be a column.": mistaken(attend, _delta_as_row),
    "D is the sum of dP over the row, without the weights. It should be rowsum(P ∘ dP).": (
        mistaken(attend, _unweighted_delta)
    ),
    "P is missing as a factor: dS is not dP - D, but P ∘ (dP - D).": _softmax_by(
        lambda p, grad_p: grad_p - _row_sum(p, grad_p)
    ),
    "D is added. If one score rises, the other weights of its row fall, so D must be subtracted: "
    "dS = P ∘ (dP - D).": _softmax_by(lambda p, grad_p: p * (grad_p + _row_sum(p, grad_p))),
    "D is the sum over the whole matrix. Each row has a sum of its own.": _softmax_by(
        lambda p, grad_p: p * (grad_p - (p * grad_p).sum())
    ),
    "D is the mean of P ∘ dP over the row. It must be the sum.": _softmax_by(
        lambda p, grad_p: p * (grad_p - (p * grad_p).mean(-1, keepdim=True))
    ),
    "backward leaves out the softmax: it uses dP as the gradient of the scores.": _softmax_by(
        lambda p, grad_p: grad_p
    ),
    "D is the sum of dO over the row, without the output. It should be rowsum(dO ∘ O).": (
        _with_delta(lambda g, out: g.sum(-1, keepdim=True))
    ),
    "D is the mean of dO ∘ O over the row. It must be the sum.": _with_delta(
        lambda g, out: (g * out).mean(-1, keepdim=True)
    ),
    "D is the sum of dO ∘ O over the whole output. Each query has a sum of its own.": _with_delta(
        lambda g, out: (g * out).sum()
    ),
    "The weights that backward recomputes are wrong: it subtracts the sum of the exponentials. L "
    "is the logarithm of this sum.": _recomputed_by(lambda s, lse, root: torch.exp(s - lse.exp())),
    "The weights that backward recomputes are wrong: it subtracts the sum itself. L is the "
    "logarithm of the sum, plus the maximum that forward subtracts.": _recomputed_by(
        lambda s, lse, root: torch.exp(s - torch.exp(lse - s.amax(-1, keepdim=True)))
    ),
    "The weights that backward recomputes are wrong: they are exp(S), without the division. "
    "Subtract L from S before you call exp.": _recomputed_by(lambda s, lse, root: torch.exp(s)),
    "The weights that backward recomputes are wrong: their scores are not divided by √E.": (
        _recomputed_by(lambda s, lse, root: torch.exp(s * root - lse))
    ),
    "The weights that backward recomputes are wrong: L is subtracted along the keys. It has one "
    "number for each query, so it must be a column.": _recomputed_by(
        lambda s, lse, root: torch.exp(s - lse.mT)
    ),
    "K and Q are exchanged: dQ is dS times K, and dK is dSᵀ times Q.": _changed(
        lambda q, k, p, grad_s, g: (
            (grad_s @ q, grad_s.mT @ k, p.mT @ g) if q.shape[-2] == k.shape[-2] else ()
        )
    ),
    "The transpose in dV is missing. In forward, V is on the right of P, so dV = Pᵀ dO.": _changed(
        lambda q, k, p, grad_s, g: (
            (grad_s @ k, grad_s.mT @ q, p @ g) if q.shape[-2] == k.shape[-2] else ()
        )
    ),
    "dV is computed from the scores. In forward, the weights P are multiplied by V, so dV = Pᵀ "
    "dO.": mistaken(attend, _from_scores),
    **{
        sentence: _changed(partial(_scaled, powers))
        for sentence, powers in {
            "dQ and dK are not divided by √E. The scores are divided by it.": (1, 1),
            "dQ is not divided by √E. The scores are divided by it.": (1, 0),
            "dK is not divided by √E. The scores are divided by it.": (0, 1),
            "dQ and dK are divided by √E twice.": (-1, -1),
            "dQ is divided by √E twice.": (-1, 0),
            "dK is divided by √E twice.": (0, -1),
        }.items()
    },
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
    "In a fully masked row the weights in backward are nan: S and L are both -∞, and S - L is nan, "
    "as is the softmax of -∞ alone. What must the weights be there?": (
        mistaken(attend, _masked_rows_nan)
    ),
}
