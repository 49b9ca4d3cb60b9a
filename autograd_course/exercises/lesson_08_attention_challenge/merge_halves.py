"""Merge two halves

1. The output of a half is an average over its keys. Its log-sum-exp says how much weight these keys
   have. Which sum does the softmax over all keys divide by?
2. The new log-sum-exp is the logarithm of exp(lse_a) + exp(lse_b). Half A has the fraction
   exp(lse_a - lse) of the weight, and half B has the rest. Never compute exp(lse_a) alone.
3. lse = torch.logaddexp(lse_a, lse_b). Let safe be lse with 0 in place of -inf. Return exp(lse_a -
   safe) · out_a + exp(lse_b - safe) · out_b, and lse.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import normal

Halves = tuple[Tensor, Tensor, Tensor, Tensor]


def merge(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    """Merge attention over two sets of keys, given the outputs and log-sum-exps of both."""
    lse = torch.logaddexp(lse_a, lse_b)
    safe = lse.masked_fill(lse == -math.inf, 0)
    return torch.exp(lse_a - safe) * out_a + torch.exp(lse_b - safe) * out_b, lse


def _mean(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    return (out_a + out_b) / 2, merge(out_a, lse_a, out_b, lse_b)[1]


def _sum(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    return out_a + out_b, merge(out_a, lse_a, out_b, lse_b)[1]


def _by_lse(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    out = (lse_a * out_a + lse_b * out_b) / (lse_a + lse_b)
    return out, merge(out_a, lse_a, out_b, lse_b)[1]


def _lse_added(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    return merge(out_a, lse_a, out_b, lse_b)[0], lse_a + lse_b


def _literal(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    a, b = lse_a.exp(), lse_b.exp()
    return (a * out_a + b * out_b) / (a + b), (a + b).log()


def _unseen_nan(
    out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor
) -> tuple[Tensor, Tensor]:
    lse = torch.logaddexp(lse_a, lse_b)
    return torch.exp(lse_a - lse) * out_a + torch.exp(lse_b - lse) * out_b, lse


def _by_maximum(
    out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor
) -> tuple[Tensor, Tensor]:
    top = torch.maximum(lse_a, lse_b)
    a, b = torch.exp(lse_a - top), torch.exp(lse_b - top)
    return (a * out_a + b * out_b) / (a + b), top + torch.log(a + b)


def _by_one_maximum(
    out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor, guarded: bool = False
) -> tuple[Tensor, Tensor]:
    top = torch.maximum(lse_a, lse_b).amax()
    a, b = torch.exp(lse_a - top), torch.exp(lse_b - top)
    total = (a + b).masked_fill((a + b == 0) & torch.tensor(guarded), 1)
    return (a * out_a + b * out_b) / total, top + torch.log(a + b)


def _by_positive_maximum(
    out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor
) -> tuple[Tensor, Tensor]:
    top = torch.maximum(lse_a, lse_b).clamp(min=0)
    a, b = torch.exp(lse_a - top), torch.exp(lse_b - top)
    total = a + b
    return (a * out_a + b * out_b) / total.masked_fill(total == 0, 1), top + torch.log(total)


def _naive_lse(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    lse = torch.log(lse_a.exp() + lse_b.exp())
    safe = lse.masked_fill(lse == -math.inf, 0)
    return torch.exp(lse_a - safe) * out_a + torch.exp(lse_b - safe) * out_b, lse


def _from_one_half(
    out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor, first: bool = True
) -> tuple[Tensor, Tensor]:
    this, other = (lse_a, lse_b) if first else (lse_b, lse_a)
    lse = this + torch.log1p(torch.exp(other - this))
    safe = lse.masked_fill(lse == -math.inf, 0)
    return torch.exp(lse_a - safe) * out_a + torch.exp(lse_b - safe) * out_b, lse


def _other_lse(change: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return a merge with the correct first output and ``change(lse_a, lse_b)`` as the second."""
    return lambda out_a, lse_a, out_b, lse_b: (
        merge(out_a, lse_a, out_b, lse_b)[0],
        change(lse_a, lse_b),
    )


def _other_weights(
    change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return a merge with the correct log-sum-exp and ``change(lse_a, lse_b)`` as the weights."""

    def mistaken(
        out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor
    ) -> tuple[Tensor, Tensor]:
        a, b = change(lse_a, lse_b)
        return a * out_a + b * out_b, torch.logaddexp(lse_a, lse_b)

    return mistaken


def _relative(lse_a: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    top = torch.maximum(lse_a, lse_b)
    return torch.exp(lse_a - top), torch.exp(lse_b - top)


def _relative_sum(lse_a: Tensor, lse_b: Tensor) -> Tensor:
    a, b = _relative(lse_a, lse_b)
    return torch.log(a + b)


SUSPECTS: Mapping[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "The number that you subtract is at least 0. If both log-sum-exps are far below 0, both "
    "weights become 0. Replace only an infinite maximum.": _by_positive_maximum,
    "The two outputs count the same. Weight each one by its share of the sum of exponentials.": (
        _mean
    ),
    "You add the two outputs. Each one is an average already, so weight it by its share of the sum "
    "of exponentials.": _sum,
    "The weights are the logarithms of the sums. Weight the outputs by the sums themselves.": (
        _by_lse
    ),
    "You add the two log-sum-exps. Add the exponentials, and take the logarithm of the sum.": (
        _lse_added
    ),
    "The weights are exchanged: out_a has the weight of half B.": _other_weights(
        lambda lse_a, lse_b: (torch.sigmoid(lse_b - lse_a), torch.sigmoid(lse_a - lse_b))
    ),
    "The weights do not sum to 1. You multiply each output by its sum of exponentials, but you do "
    "not divide by both sums together.": _other_weights(
        lambda lse_a, lse_b: (lse_a.exp(), lse_b.exp())
    ),
    "The weights do not sum to 1. You subtract the larger log-sum-exp, but you do not divide by "
    "the sum of both exponentials.": _other_weights(_relative),
    "The new log-sum-exp is the larger one of the two. It must be the logarithm of the sum of both "
    "exponentials.": _other_lse(torch.maximum),
    "The new log-sum-exp is the sum of the exponentials. Its logarithm is missing.": _other_lse(
        lambda lse_a, lse_b: lse_a.exp() + lse_b.exp()
    ),
    "The new log-sum-exp is the logarithm of a mean. Add the exponentials, and do not divide by "
    "2.": _other_lse(lambda lse_a, lse_b: torch.logaddexp(lse_a, lse_b) - math.log(2)),
    "The new log-sum-exp is the logarithm of a mean, so all weights are twice as large. Add the "
    "exponentials, and do not divide by 2.": lambda *given: (
        2 * merge(*given)[0],
        merge(*given)[1] - math.log(2),
    ),
    "The maximum that you subtract is missing in the new log-sum-exp. Add it outside of the "
    "logarithm.": _other_lse(_relative_sum),
    "If a query sees no key at all, its output becomes nan. -∞ - (-∞) is nan, and 0 / 0 is nan. "
    "What can you subtract there instead, and what can you divide by?": _unseen_nan,
    "If a query sees no key at all, both log-sum-exps are -∞. You subtract the larger one, and "
    "-∞ - (-∞) is nan. What can you subtract there instead?": _by_maximum,
    "If a query sees no key at all, the new log-sum-exp must stay -∞. You return 0. It comes from "
    "numbers that replace -∞ in a subtraction, or 0 in a division.": _other_lse(
        lambda lse_a, lse_b: torch.logaddexp(lse_a, lse_b).nan_to_num(neginf=0.0)
    ),
    "If a query sees no key at all, the new log-sum-exp must stay -∞. You return the lowest finite "
    "number, which replaces it in the subtraction.": _other_lse(
        lambda lse_a, lse_b: torch.logaddexp(lse_a, lse_b).clamp(min=torch.finfo(lse_a.dtype).min)
    ),
    "You subtract the largest log-sum-exp of all queries. If another query is far below it, all "
    "its exponentials are 0. Subtract a number of each query.": _by_one_maximum,
    "You subtract the largest log-sum-exp of all queries. If another query is far below it, all "
    "its exponentials become 0. Subtract a number of each query.": (
        partial(_by_one_maximum, guarded=True)
    ),
    "exp of a large log-sum-exp overflows, so the new log-sum-exp is infinite. Subtract the larger "
    "one of the two before you call exp, and add it back outside of the logarithm.": _naive_lse,
    "You subtract lse_a. If it is far below lse_b, exp overflows, and if it is -∞, the result is "
    "nan. Subtract the larger one of the two.": _from_one_half,
    "You subtract lse_b. If it is far below lse_a, exp overflows, and if it is -∞, the result is "
    "nan. Subtract the larger one of the two.": partial(_from_one_half, first=False),
    "Both outputs have the weight of half A. Weight each one by the share of its own half.": (
        _other_weights(lambda lse_a, lse_b: (torch.sigmoid(lse_a - lse_b),) * 2)
    ),
    "Both outputs have the weight of half B. Weight each one by the share of its own half.": (
        _other_weights(lambda lse_a, lse_b: (torch.sigmoid(lse_b - lse_a),) * 2)
    ),
    "If a query sees no key at all, the new log-sum-exp must stay -∞. You return -10⁹, which "
    "replaces it in the subtraction.": _other_lse(
        lambda lse_a, lse_b: torch.logaddexp(lse_a, lse_b).clamp(min=-1e9)
    ),
    "exp of a large log-sum-exp overflows. Subtract the new log-sum-exp before you call exp.": (
        _literal
    ),
}


def halves(rng: torch.Generator, *shape: int, shift: float = 0.0) -> Halves:
    """Return outputs with 2 features, and log-sum-exps shifted by ``shift``."""
    out_a, out_b = normal(rng, *shape, 2), normal(rng, *shape, 2)
    return out_a, normal(rng, *shape, 1) + shift, out_b, normal(rng, *shape, 1) + shift


def far_apart(rng: torch.Generator) -> Halves:
    """Return halves in which the log-sum-exps of the queries differ by thousands."""
    out_a, lse_a, out_b, lse_b = halves(rng, 3)
    shift = torch.tensor([[2000.0], [0.0], [-2000.0]], dtype=torch.float64)
    return out_a, lse_a + shift, out_b, lse_b + shift


def unseen(rng: torch.Generator, *, both: bool) -> Halves:
    """Return halves in which query 0 sees no key of half A, or of either half if ``both``."""
    out_a, lse_a, out_b, lse_b = halves(rng, 3)
    out_a[0], lse_a[0] = 0, -math.inf
    if both:
        out_b[0], lse_b[0] = 0, -math.inf
    return out_a, lse_a, out_b, lse_b


def exchanged(given: Halves) -> Halves:
    """Return the same halves in reverse order."""
    return *given[2:], *given[:2]


EXERCISE = RoutineExercise(
    answer="merge",
    points=1,
    difficulty="easy",
    minutes=6,
    section="A softmax in pieces",
    constraints="nothing overflows, and a half without keys does not count",
    reference=merge,
    samplers={
        "4 queries": lambda rng: halves(rng, 4),
        "two heads of 3 queries": lambda rng: halves(rng, 2, 3),
        "log-sum-exps in the thousands": lambda rng: halves(rng, 4, shift=2000.0),
        "log-sum-exps that differ by thousands": far_apart,
        "a query that sees no key of half A": lambda rng: unseen(rng, both=False),
        "a query that sees no key of half B": lambda rng: exchanged(unseen(rng, both=False)),
        "a query that sees no key at all": lambda rng: unseen(rng, both=True),
    },
    suspects=SUSPECTS,
)
