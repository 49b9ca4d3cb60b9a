"""Tier 1: forward

1. Work in this order: scores, mask, softmax, product. The softmax can become nan in two ways: a
   score is too large for exp, or every score of a row is -∞.
2. Subtract the largest score of each row from the row. The softmax stays the same, and no exponent
   is above 0. In a fully masked row this would be -∞ minus -∞, so subtract 0 there. Then all
   exponentials of the row are 0, and so is their sum. Do not divide by this sum.
3. high = s.amax(-1, keepdim=True); high = where(high == -inf, 0, high); e = exp(s - high); total =
   e.sum(-1, keepdim=True); e / where(total == 0, 1, total) @ v.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from autograd_doctor.extension import OperationRecorder
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from autograd_course.exercises.lesson_08_attention_challenge._constraints import (
    BUILT_IN,
    LONG,
    rows,
)
from autograd_course.exercises.lesson_08_attention_challenge._forward_mistakes import SUSPECTS
from autograd_course.exercises.lesson_08_attention_challenge._inputs import drawn, holes
from autograd_course.exercises.lesson_08_attention_challenge._references import attend
from autograd_course.grader.checks.operators import HINT, OwnOperators
from autograd_course.grader.exercise import RoutineExercise
from autograd_course.grader.sampling import generator, normal
from autograd_course.grader.trials.measured import far_result
from autograd_course.grader.verdict import Verdict, wrong


def large(rng: torch.Generator) -> tuple[Tensor, ...]:
    """Return inputs whose scores are in the thousands.

    The scores of query 0 are all negative. The scores of query 1 are far below those of query 2.
    """
    q, k, v = drawn(rng)
    q[0], q[1], q[2] = -1 - q[0].abs(), 0.1 * q[1].abs(), 1 + q[2].abs()
    return 50 * q, 50 * (k + 5), v


def added(rng: torch.Generator, *, empty: int | None = None) -> tuple[Tensor, ...]:
    """Return inputs and a floating-point mask that is ``-∞`` at some positions."""
    hidden = ~holes(4, 4, empty=empty)
    given, mask = drawn(rng), normal(rng, 4, 4)
    mask[0, 1] = 0  # query 0 sees key 1, and the mask adds nothing to its score
    return *given, mask.masked_fill(hidden, -math.inf)


def _past() -> Tensor:
    """Return the mask of causal attention, in which each query sees no later key."""
    return torch.ones(LONG, LONG, dtype=torch.bool).tril()


def no_built_in(routine: Callable[..., Any]) -> Verdict | None:
    """Check that the routine does not call PyTorch's own attention."""
    given = rows(generator(), 1, 2)
    for masks in ((), (_past(),)):
        right = scaled_dot_product_attention(*given, *masks)
        with OperationRecorder() as recording, OwnOperators() as own:
            came = routine(*given, *masks)
        if own.told:
            return wrong(f"{own.told} {HINT}")
        if any(name in BUILT_IN for name in recording.names):
            return wrong(
                "right, but PyTorch's own scaled_dot_product_attention does the work. Compute the "
                "scores, their softmax and the product yourself, with matrix products, exp and "
                "sums."
            )
        if far := far_result(came, right, f"for {LONG} queries,"):
            return far
    return None


def leaves_its_arguments(routine: Callable[..., Any]) -> Verdict | None:
    """Check that the routine does not change the caller's tensors."""
    given, mask = rows(generator()), _past()
    before = [x.clone() for x in (*given, mask)]
    right = scaled_dot_product_attention(*given, attn_mask=mask)
    came = routine(*given, mask)
    for name, x, was in zip(("q", "k", "v", "mask"), (*given, mask), before, strict=True):
        if not torch.equal(x, was):
            return wrong(
                f"right, but {name} has other values after the call. An in-place operation changes "
                "the caller's tensor. Compute a new tensor instead."
            )
    return far_result(came, right, f"for a causal mask of {LONG} queries,")


def stays_in_range(routine: Callable[..., Any]) -> Verdict | None:
    """Check that float32 outputs stay finite when the scores are in the hundreds."""
    given = tuple(30 * x.float() for x in rows(generator()))
    came = routine(*given)
    if bool(came.isfinite().all()):
        q, k, v = (x.double() for x in given)
        return far_result(came, scaled_dot_product_attention(q, k, v), "in float32,")
    return wrong(
        "right in float64. But in float32 exp overflows above 88, and here some scores are in the "
        "hundreds. Which number can you subtract from all scores of a row without changing its "
        "softmax?"
    )


EXERCISE = RoutineExercise(
    answer="attend",
    points=2,
    difficulty="medium",
    minutes=15,
    section="Fully masked rows",
    constraints="nothing overflows, a fully masked row gives zeros, and no built-in does the work",
    reference=attend,
    samplers={
        "4 queries, 4 keys": lambda rng: drawn(rng),
        "5 queries, 3 keys, two heads": lambda rng: drawn(rng, 2, n=5, m=3),
        "scores in the thousands": large,
        "a boolean mask": lambda rng: (*drawn(rng), holes(4, 4)),
        "an additive mask with -∞": lambda rng: added(rng),
        "a query that sees no key": lambda rng: (*drawn(rng), holes(4, 4, empty=1)),
        "an additive mask, one row all -∞": lambda rng: added(rng, empty=2),
    },
    suspects=SUSPECTS,
    trials=(no_built_in, leaves_its_arguments, stays_in_range),
)
