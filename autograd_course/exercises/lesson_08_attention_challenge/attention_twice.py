"""Tier 5: differentiable twice

1. Which tensors carry a graph into backward, according to lesson 06? Check each of the five tensors
   that tier 3 saves. One of them is neither an input nor an output.
2. L must be an output, and then backward receives a gradient for it. L is the log-sum-exp of a row
   of S, so ∂L/∂S is this row of the softmax.
3. forward returns (out, lse), and setup_context saves the inputs and these two outputs.
   backward(ctx, grad_out, grad_lse) is that of tier 3 with dS = P ∘ (dP - D + grad_lse[..., None]).
   Use no in-place operations.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from autograd_course.exercises.lesson_08_attention_challenge._constraints import (
    OWN_WORK,
    keeps_little,
)
from autograd_course.exercises.lesson_08_attention_challenge._gradient_mistakes import (
    through,
)
from autograd_course.exercises.lesson_08_attention_challenge._inputs import drawn
from autograd_course.exercises.lesson_08_attention_challenge._references import (
    attend,
    scores,
    weights,
)
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.suspecting import Grads, mistaken


def with_lse(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return the attention output and the log-sum-exp of each row of scores."""
    return attend(q, k, v), torch.logsumexp(scores(q, k), -1)


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


def _lse_by(share: Callable[[Tensor, Tensor, float], Tensor]) -> Callable[..., Any]:
    """Return attention whose gradient of the scores gets ``share(P, grad_lse, √E)`` from L."""

    def backward(inputs: Any, g: Tensor, grad_lse: Tensor) -> Grads:
        q, k, v = inputs
        p, grad_p = weights(q, k), g @ v.mT
        grad_s = p * (grad_p - (p * grad_p).sum(-1, keepdim=True))
        added = share(p, grad_lse.unsqueeze(-1), math.sqrt(q.shape[-1]))
        return through(q, k, v, p, grad_s + added, g)

    return mistaken(with_lse, backward)


LSE_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "backward does not use the gradient of the second output, the log-sum-exp. It depends on the "
    "scores: ∂L/∂S is P.": mistaken(with_lse, lambda i, g, grad_lse: _lse(i, g, grad_lse, 0)),
    "The gradient of the log-sum-exp is added along the keys. It has one number for each query, so "
    "it needs another dim at the end.": mistaken(with_lse, _lse_as_row),
    "The part of the log-sum-exp is not divided by √E. L also depends on the scores, so its part "
    "of dS is divided in the same way.": _lse_by(lambda p, grad_lse, root: p * grad_lse * root),
    "The gradient of the log-sum-exp is added without P. Each score gets its weight's share: "
    "∂L/∂S is P.": _lse_by(lambda p, grad_lse, root: grad_lse.expand(p.shape)),
    "The gradient of the log-sum-exp has the wrong sign: L grows with the scores, so add it.": (
        mistaken(with_lse, lambda i, g, grad_lse: _lse(i, g, grad_lse, -1))
    ),
}

EXERCISE = FunctionExercise(
    answer="TwiceAttention",
    points=3,
    difficulty="hard",
    minutes=25,
    section="Differentiable twice",
    constraints="the saved tensors are within the budget of tier 3",
    reference=with_lse,
    samplers={
        "3 queries, 3 keys": lambda rng: drawn(rng, n=3, m=3),
        "3 queries, 2 keys, two heads": lambda rng: drawn(rng, 1, 2, n=3, m=2),
    },
    gradient_suspects=LSE_GRADIENTS,
    double_backward=True,
    checks=(*OWN_WORK, keeps_little),
)
