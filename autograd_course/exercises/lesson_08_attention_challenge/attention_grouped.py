"""Tier 6: grouped queries

1. Several query heads read the same key head. What happens to the gradient of a tensor when forward
   uses the tensor in several places?
2. The gradients add up: the gradients of k and v are sums over the heads of their group. You may
   repeat k and v for the products, in forward and again in backward. But save them without
   repetition. Query head h reads key head h // group, so use repeat_interleave, not repeat.
3. dSᵀ Q / √E has one matrix for each query head. Call it dk. Then dk.unflatten(-3, (k.shape[-3],
   group)).sum(-3) has the shape of k. Do the same for dv.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from autograd_course.exercises.lesson_08_attention_challenge._constraints import (
    OWN_WORK,
    linear_budget,
    rows,
)
from autograd_course.exercises.lesson_08_attention_challenge._gradient_mistakes import (
    through,
)
from autograd_course.exercises.lesson_08_attention_challenge._inputs import drawn
from autograd_course.exercises.lesson_08_attention_challenge._references import attend, weights
from autograd_course.grader.checks import keeps_at_most, on
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import Grads, mistaken


def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute attention in which several query heads share one head of keys and values."""
    shared = q.shape[-3] // k.shape[-3]
    return attend(q, k.repeat_interleave(shared, -3), v.repeat_interleave(shared, -3))


def _repeated_in_turn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    lead = [1] * (k.dim() - 3)
    return attend(q, *(x.repeat(*lead, q.shape[-3] // x.shape[-3], 1, 1) for x in (k, v)))


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


def _in_turn(inputs: Any, g: Tensor) -> Grads:
    """Return the gradients if backward repeats the keys in another order than forward."""
    q, *shared = inputs
    lead, heads = [1] * (q.dim() - 3), inputs[1].shape[-3]
    k, v = (x.repeat(*lead, q.shape[-3] // heads, 1, 1) for x in shared)
    right = [x.repeat_interleave(q.shape[-3] // heads, -3) for x in shared]
    s = q @ right[0].mT / math.sqrt(q.shape[-1])
    lse = torch.logsumexp(s, -1, keepdim=True)
    p = torch.exp(q @ k.mT / math.sqrt(q.shape[-1]) - lse)
    delta = (g * grouped(*inputs)).sum(-1, keepdim=True)
    grad_q, *per_head = through(q, k, v, p, p * (g @ v.mT - delta), g)
    return grad_q, *(x.unflatten(-3, (heads, -1)).sum(-3) for x in per_head)


def _one_of_group_for(name: str) -> Callable[[Any, Tensor], Grads]:
    """Return a backward in which only one head of each group adds to the gradient ``name``."""

    def backward(inputs: Any, g: Tensor) -> Grads:
        (grad_q, of_k, of_v), heads = _per_head(inputs, g), inputs[1].shape[-3]
        of_k, of_v = (x.unflatten(-3, (heads, -1)) for x in (of_k, of_v))
        first_k, first_v = of_k[..., 0, :, :], of_v[..., 0, :, :]
        if name == "k":
            return grad_q, first_k, of_v.sum(-3)
        return grad_q, of_k.sum(-3), first_v

    return backward


GROUPED_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "Only one head of each group contributes to the gradient of the shared keys. What about the "
    "other heads?": mistaken(grouped, _one_of_group),
    "Only one head of each group contributes to the gradient of k. What about the other heads?": (
        mistaken(grouped, _one_of_group_for("k"))
    ),
    "Only one head of each group contributes to the gradient of v. What about the other heads?": (
        mistaken(grouped, _one_of_group_for("v"))
    ),
    "backward gives the query heads the key heads 0 1 0 1, but forward gave them 0 0 1 1. Repeat k "
    "and v in the same way in both.": mistaken(grouped, _in_turn),
    "You sum over heads that do not share keys. Neighboring heads form a group, so sum over the "
    "second dim of (heads of keys, group).": mistaken(grouped, _of_other_groups),
}

grouped_rows = on(
    lambda: (rows(6)[0], *rows(2)[1:]),
    keeps_at_most(
        linear_budget, "q, the output, one number for each query, and k and v without repetition"
    ),
)

EXERCISE = FunctionExercise(
    answer="GroupedAttention",
    points=2,
    difficulty="medium",
    minutes=20,
    section="Heads that share keys",
    constraints="k and v are saved without repetition",
    reference=grouped,
    samplers={
        "4 query heads, 2 key heads": lambda rng: (
            normal(rng, 4, 3, 3),
            normal(rng, 2, 3, 3),
            normal(rng, 2, 3, 2),
        ),
        "3 query heads, 1 key head, a batch dim": lambda rng: (
            normal(rng, 2, 3, 2, 3),
            normal(rng, 2, 1, 3, 3),
            normal(rng, 2, 1, 3, 2),
        ),
        "as many key heads as query heads": lambda rng: drawn(rng, 2, n=2, m=3),
    },
    suspects={
        "Every query head reads the first key head. Neighboring heads must share: 0 0 1 1.": (
            lambda q, k, v: attend(q, k[..., :1, :, :], v[..., :1, :, :])
        ),
        "The query heads read the key heads 0 1 0 1. Neighboring heads must share: 0 0 1 1.": (
            _repeated_in_turn
        ),
    },
    gradient_suspects=GROUPED_GRADIENTS,
    double_backward=False,
    checks=(*OWN_WORK, grouped_rows),
)
