"""The first three tiers of lesson 07: attention whole, with less and less of it kept."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from autograd_course.grader.checks import no_copy_on_ctx
from autograd_course.grader.exercise import Exercise, FunctionExercise, RoutineExercise, Sampler
from autograd_course.grader.exercises.lesson_07_backward import GRADIENT_SUSPECTS
from autograd_course.grader.exercises.lesson_07_bounds import (
    CONDUCT,
    keeps_little,
    leaves_its_arguments,
    no_built_in,
    stays_in_range,
)
from autograd_course.grader.exercises.lesson_07_references import attend
from autograd_course.grader.exercises.lesson_07_suspects import SUSPECTS
from autograd_course.grader.sampling import normal

LESSON = "07_attention_challenge"


def drawn(rng: torch.Generator, *lead: int, n: int = 4, m: int = 4) -> tuple[Tensor, ...]:
    """Return ``n`` queries and ``m`` keys of width 3, values of width 2."""
    return normal(rng, *lead, n, 3), normal(rng, *lead, m, 3), normal(rng, *lead, m, 2)


def holes(n: int, m: int, *, empty: int | None = None) -> Tensor:
    """Return a boolean mask in which each query misses some keys, and one misses all."""
    seen = (torch.arange(n)[:, None] + torch.arange(m)) % 3 > 0
    if empty is not None:
        seen[empty] = False
    return seen


def large(rng: torch.Generator) -> tuple[Tensor, ...]:
    """Return inputs whose scores are in the thousands."""
    q, k, v = drawn(rng)
    return 50 * q, 50 * k, v


def added(rng: torch.Generator, *, empty: int | None = None) -> tuple[Tensor, ...]:
    """Return inputs with a floating mask, ``-∞`` in places."""
    hidden = ~holes(4, 4, empty=empty)
    return *drawn(rng), normal(rng, 4, 4).masked_fill(hidden, -math.inf)


FORWARD: Mapping[str, Sampler] = {
    "4 queries, 4 keys": lambda rng: drawn(rng),
    "5 queries, 3 keys, two heads": lambda rng: drawn(rng, 2, n=5, m=3),
    "scores in the thousands": large,
    "a boolean mask": lambda rng: (*drawn(rng), holes(4, 4)),
    "an additive mask with -∞": lambda rng: added(rng),
    "a query that sees no key": lambda rng: (*drawn(rng), holes(4, 4, empty=1)),
    "an additive mask, one row all -∞": lambda rng: added(rng, empty=2),
}

MASKED: Mapping[str, Sampler] = {
    "4 queries, 4 keys": lambda rng: drawn(rng),
    "3 queries, 4 keys, two heads": lambda rng: drawn(rng, 1, 2, n=3),
    "a query that sees no key": lambda rng: (*drawn(rng), holes(4, 4, empty=1)),
}

WHOLE: tuple[Exercise, ...] = (
    RoutineExercise(
        id="attention-forward",
        lesson=LESSON,
        title="Tier 1: forward",
        points=2,
        reference=attend,
        samplers=FORWARD,
        suspects=SUSPECTS,
        trials=(no_built_in, leaves_its_arguments, stays_in_range),
        bounds="nothing overflows, a query without keys gets zeros, no built-in does the work",
        hints=(
            "Work in this order: scores, mask, softmax, product. Two things can make the softmax "
            "nan: a score too large for exp, and a row in which every score is -∞.",
            "Subtract from each row its largest score: the softmax stays the same and no exponent "
            "is above 0. In a row of -∞ that would be -∞ minus -∞, so subtract 0 there. Then its "
            "exponentials are 0, and so is their sum, by which you must not divide.",
            "high = s.amax(-1, keepdim=True); high = where(high == -inf, 0, high); e = exp(s - "
            "high); total = e.sum(-1, keepdim=True); e / where(total == 0, 1, total) @ v.",
        ),
        read='lesson 07, "Rows that see nothing"',
    ),
    FunctionExercise(
        id="attention-backward",
        lesson=LESSON,
        title="Tier 2: backward",
        points=3,
        reference=attend,
        samplers=MASKED,
        suspects=SUSPECTS,
        gradient_suspects=GRADIENT_SUSPECTS,
        checks=CONDUCT,
        bounds="backward is a formula of your own",
        double_backward=False,
        hints=(
            "Go backward through three steps, one at a time: O = P V, then P = softmax(S), then "
            "S = Q Kᵀ / √E. Write down the shape of every gradient before its formula.",
            "The two matrix products go as in lesson 03: of each factor, g times the other one. "
            "The softmax couples the weights of a row: dS = P ∘ (dP - D), with one number D for "
            "each row.",
            "dV = Pᵀ dO, dP = dO Vᵀ, dS = P ∘ (dP - rowsum(P ∘ dP)), dQ = dS K / √E, dK = dSᵀ Q / "
            "√E. Where a row is masked, P is 0 and takes care of it. mask gets None.",
        ),
        read='lesson 07, "Backward, one product at a time"',
    ),
    FunctionExercise(
        id="attention-budget",
        lesson=LESSON,
        title="Tier 3: budget",
        points=3,
        reference=attend,
        samplers=MASKED,
        suspects=SUSPECTS,
        gradient_suspects=GRADIENT_SUSPECTS,
        checks=(*CONDUCT, no_copy_on_ctx, keeps_little),
        bounds="q, k, v, the output and one number for each query are all that is kept",
        double_backward=False,
        hints=(
            "Everything with as many columns as there are keys must go. What is the least that "
            "backward needs, beside q and k, to compute the weights once more?",
            "P = exp(S - L), where L is the logarithm of the sum of the exponentials of a row: one "
            "number a query. And D does not need P: rowsum(P ∘ dP) = rowsum(dO ∘ O).",
            "In forward L = high + log(total), and save q, k, v, mask, out, L. In backward compute "
            "S again as forward did, the mask too, and P = exp(S - L[..., None]); with L = -∞ "
            "that would be nan, so use 0 for it there.",
        ),
        read='lesson 07, "Keep a number, not a row"',
    ),
)
