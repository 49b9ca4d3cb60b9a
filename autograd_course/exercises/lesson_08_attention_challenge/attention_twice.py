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
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.exercises.lesson_08_attention_challenge._constraints import (
    OWN_WORK,
    keeps_little,
)
from autograd_course.exercises.lesson_08_attention_challenge._forward_mistakes import SUSPECTS
from autograd_course.exercises.lesson_08_attention_challenge._gradient_mistakes import (
    GRADIENT_SUSPECTS,
    through,
)
from autograd_course.exercises.lesson_08_attention_challenge._inputs import drawn
from autograd_course.exercises.lesson_08_attention_challenge._references import (
    attend,
    scores,
    weights,
)
from autograd_course.grader.checks.calling import applied, found
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
    """Return attention whose backward adds ``share(P, grad_lse, √E)`` to dS."""

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


def _shared_by(
    weigh: Callable[[Tensor, Tensor, float], Tensor] | None = None, power: int = 1
) -> Callable[..., Any]:
    """Return attention with a mistake that affects the contributions of both outputs.

    ``weigh(scores, L, √E)`` recomputes the weights, and dS is divided by √E to the power ``power``.
    """

    def backward(inputs: Any, g: Tensor, grad_lse: Tensor) -> Grads:
        q, k, v = inputs
        s, root = scores(q, k), math.sqrt(q.shape[-1])
        lse = torch.logsumexp(s, -1, keepdim=True)
        p = weigh(s, lse, root) if weigh else torch.exp(s - lse)
        delta = (g * attend(q, k, v)).sum(-1) - grad_lse
        grad_s = p * (g @ v.mT - delta.unsqueeze(-1)) * root ** (1 - power)
        return through(q, k, v, p, grad_s, g)

    return mistaken(with_lse, backward)


def and_lse(suspect: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return a suspect with a mistake in the first output and the right second output."""
    return lambda q, k, v: (suspect(q, k, v), torch.logsumexp(scores(q, k), -1))


GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "The gradient of the log-sum-exp is added after the softmax, without P and without √E. Each "
    "score gets its weight's share: ∂L/∂S is P.": mistaken(
        with_lse, lambda inputs, g, grad_lse: _lse_after(inputs, g, grad_lse)
    ),
    "dQ and dK are not divided by √E. The scores are divided by it.": _shared_by(power=0),
    "dQ and dK are divided by √E twice.": _shared_by(power=2),
    "The weights that backward recomputes are wrong: their scores are not divided by √E.": (
        _shared_by(lambda s, lse, root: torch.exp(s * root - lse))
    ),
    "The weights that backward recomputes are wrong: L is subtracted along the keys. It has one "
    "number for each query, so it must be a column.": _shared_by(
        lambda s, lse, root: torch.exp(s - lse.mT) if s.shape[-1] == s.shape[-2] else s
    ),
    "The weights that backward recomputes are wrong: they are exp(S), without the division. "
    "Subtract L from S before you call exp.": _shared_by(lambda s, lse, root: torch.exp(s)),
    "D and the gradient of the log-sum-exp are subtracted along the keys. Both have one number for "
    "each query, so they must be a column.": mistaken(
        with_lse, lambda inputs, g, grad_lse: _both_as_row(inputs, g, grad_lse)
    ),
}


def _lse_after(inputs: Any, g: Tensor, grad_lse: Tensor) -> Grads:
    q, k, v = inputs
    p, grad_p, root = weights(q, k), g @ v.mT, math.sqrt(q.shape[-1])
    grad_s = p * (grad_p - (p * grad_p).sum(-1, keepdim=True))
    return through(q, k, v, p, grad_s + grad_lse.unsqueeze(-1) * root, g)


def _both_as_row(inputs: Any, g: Tensor, grad_lse: Tensor) -> Grads:
    q, k, v = inputs
    p = weights(q, k)
    delta = (g * (p @ v)).sum(-1) - grad_lse
    return through(q, k, v, p, p * (g @ v.mT - delta.unsqueeze(-2)), g)


Outputs = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def _other_lse(change: Callable[[Tensor, Tensor], Tensor]) -> Outputs:
    """Return the outputs with ``change(scores, L)`` instead of L."""
    return lambda q, k, v: (
        attend(q, k, v),
        change(scores(q, k), torch.logsumexp(scores(q, k), -1)),
    )


FORWARD: Mapping[str, Outputs] = {
    "The log-sum-exp lacks the maximum that forward subtracts. Add it to the logarithm of the "
    "sum.": _other_lse(lambda s, lse: lse - s.amax(-1)),
    "The log-sum-exp contains the sum without its logarithm.": _other_lse(
        lambda s, lse: s.amax(-1) + torch.exp(lse - s.amax(-1))
    ),
    "The second output is the sum of the exponentials, without the logarithm.": _other_lse(
        lambda s, lse: lse.exp()
    ),
    "The second output is the sum of exp(S - maximum). The log-sum-exp is its logarithm, plus the "
    "maximum.": _other_lse(lambda s, lse: torch.exp(lse - s.amax(-1))),
    "The second output is the maximum of each row, without the logarithm of the sum.": _other_lse(
        lambda s, lse: s.amax(-1)
    ),
    "The log-sum-exp contains the maximum, but the exponentials do not subtract it. Subtract it "
    "from the scores before exp.": _other_lse(lambda s, lse: lse + s.amax(-1)),
    "The log-sum-exp keeps the dim of the keys. Its shape is (..., N).": _other_lse(
        lambda s, lse: lse.unsqueeze(-1)
    ),
    "The log-sum-exp runs over the queries. It has one number for each query, so it runs over the "
    "keys.": _other_lse(lambda s, lse: torch.logsumexp(s, -2)),
    "The scores are not divided by √E.": lambda q, k, v: (
        torch.softmax(q @ k.mT, -1) @ v,
        torch.logsumexp(q @ k.mT, -1),
    ),
    "The scores are divided by E, not by its square root.": lambda q, k, v: (
        torch.softmax(q @ k.mT / q.shape[-1], -1) @ v,
        torch.logsumexp(q @ k.mT / q.shape[-1], -1),
    ),
}


def lse_is_cut_off(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check whether the log-sum-exp is marked as non-differentiable."""
    _, outputs = applied(function, inputs)
    if len(outputs) < 2 or outputs[1].requires_grad:
        return None
    return found(
        "wrong-non-differentiable",
        "The second output has no gradient.",
        {},
        "The log-sum-exp is marked as non-differentiable, so PyTorch passes no gradient for it. "
        "Its gradient reaches q and k, so do not mark it.",
    )


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
    suspects={
        **{sentence: and_lse(suspect) for sentence, suspect in SUSPECTS.items()},
        **FORWARD,
    },
    gradient_suspects={
        **LSE_GRADIENTS,
        **{sentence: and_lse(suspect) for sentence, suspect in GRADIENT_SUSPECTS.items()},
        **GRADIENTS,
    },
    double_backward=True,
    checks=(*OWN_WORK, keeps_little),
    causes=(lse_is_cut_off,),
)
