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
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.exercises.lesson_08_attention_challenge._constraints import (
    OWN_WORK,
    linear_budget,
    rows,
)
from autograd_course.exercises.lesson_08_attention_challenge._forward_mistakes import SUSPECTS
from autograd_course.exercises.lesson_08_attention_challenge._gradient_mistakes import (
    GRADIENT_SUSPECTS,
    through,
)
from autograd_course.exercises.lesson_08_attention_challenge._inputs import drawn
from autograd_course.exercises.lesson_08_attention_challenge._references import attend, weights
from autograd_course.grader.checks import keeps_at_most, on
from autograd_course.grader.checks.calling import applied, backward, found
from autograd_course.grader.exercise import Check, FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import Grads, mistaken


def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute attention in which several query heads share one head of keys and values."""
    shared = q.shape[-3] // k.shape[-3]
    return attend(q, k.repeat_interleave(shared, -3), v.repeat_interleave(shared, -3))


def _repeated_in_turn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    lead = [1] * (k.dim() - 3)
    return attend(q, *(x.repeat(*lead, q.shape[-3] // x.shape[-3], 1, 1) for x in (k, v)))


def _in_order(q: Tensor, x: Tensor) -> Tensor:
    return x.repeat(*[1] * (x.dim() - 3), q.shape[-3] // x.shape[-3], 1, 1)


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
    """Return the gradients of a backward that repeats the keys in a different order."""
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
    """Return a backward in which only one head of each group adds to the gradient of ``name``."""

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

Suspect = Callable[..., Tensor]


def with_repeated(suspect: Suspect) -> Suspect:
    """Return ``suspect`` for grouped heads that share keys and values correctly."""

    def shared(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        group = q.shape[-3] // k.shape[-3]
        return suspect(q, k.repeat_interleave(group, -3), v.repeat_interleave(group, -3))

    return shared


def _summed(change: Callable[[Tensor, int], Tensor]) -> Callable[[Any, Tensor], Grads]:
    """Return a backward that applies ``change`` to the gradients of k and v for all query heads."""

    def backward(inputs: Any, g: Tensor) -> Grads:
        (grad_q, *per_head), heads = _per_head(inputs, g), inputs[1].shape[-3]
        return grad_q, *(change(x, heads) for x in per_head)

    return backward


def _all_heads(x: Tensor, heads: int) -> Tensor:
    return x.sum(-3, keepdim=True).expand(*x.shape[:-3], heads, *x.shape[-2:])


def _keys_in_turn(inputs: Any, g: Tensor) -> Grads:
    """Return gradients in which only the product for dQ repeats the keys in a different order."""
    q, k, v = inputs
    group, lead = q.shape[-3] // k.shape[-3], [1] * (k.dim() - 3)
    keys, values = (x.repeat_interleave(group, -3) for x in (k, v))
    p, grad_p = weights(q, keys), g @ values.mT
    grad_s = p * (grad_p - (p * grad_p).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
    right = _summed(lambda x, heads: x.unflatten(-3, (heads, -1)).sum(-3))(inputs, g)
    return grad_s @ k.repeat(*lead, group, 1, 1), *right[1:]


MORE_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "The gradients of k and v are means over the heads of a group. They must be sums: each head "
    "adds its share.": mistaken(
        grouped, _summed(lambda x, heads: x.unflatten(-3, (heads, -1)).mean(-3))
    ),
    "Only the first heads of q contribute to the gradients of k and v. Add those of all heads of a "
    "group.": mistaken(grouped, _summed(lambda x, heads: x[..., :heads, :, :])),
    "The gradients of k and v are sums over all query heads. Add only the heads of a group.": (
        mistaken(grouped, _summed(_all_heads))
    ),
    "dQ reads the key heads in the order 0 1 0 1, but forward reads 0 0 1 1.": (
        mistaken(grouped, _keys_in_turn)
    ),
}


def heads_per_group(rule: str) -> Check:
    """Return a check that reports how many heads share keys if the shapes do not match."""

    def check(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
        try:
            backward(applied(function, inputs)[1])
        except RuntimeError as error:
            if "size of tensor" in str(error) or "shapes cannot be" in str(error):
                heads, shared = inputs[0].shape[-3], inputs[1].shape[-3]
                return found(
                    rule,
                    "The shapes do not fit.",
                    {},
                    f"Here q has {heads} heads and k has {shared}, so each key head serves "
                    f"{heads // shared}. The heads are dim -3: count from the end, because a batch "
                    "dim can be in front.",
                )
        return None

    return check


grouped_rows = on(
    lambda rng: (rows(rng, 6)[0], *rows(rng, 2)[1:]),
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
        "The keys are shared in the right way, but the query heads read the values 0 1 0 1. "
        "Neighboring heads must share: 0 0 1 1.": lambda q, k, v: attend(
            q, k.repeat_interleave(q.shape[-3] // k.shape[-3], -3), _in_order(q, v)
        ),
        "The values are shared in the right way, but the query heads read the keys 0 1 0 1. "
        "Neighboring heads must share: 0 0 1 1.": lambda q, k, v: attend(
            q, _in_order(q, k), v.repeat_interleave(q.shape[-3] // v.shape[-3], -3)
        ),
        **{sentence: with_repeated(suspect) for sentence, suspect in SUSPECTS.items()},
    },
    gradient_suspects={
        **GROUPED_GRADIENTS,
        **MORE_GRADIENTS,
        **{sentence: with_repeated(suspect) for sentence, suspect in GRADIENT_SUSPECTS.items()},
    },
    double_backward=False,
    checks=(*OWN_WORK, grouped_rows),
    causes=(heads_per_group("forward-raises"), heads_per_group("backward-raises")),
)
