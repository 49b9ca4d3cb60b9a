"""Gumbel-softmax, hard

1. The one-hot vector has no useful gradient. Which smooth vector replaces it in backward, and what
   must you save so that backward can compute this vector?
2. backward uses the formula from exercise 1 with the same noise. It needs the soft sample, which is
   neither an input nor the output, so recompute it in backward.
3. In forward, return the one-hot vector of the argmax of logits + noise, in the dtype of the
   logits. In setup_context, save logits and noise, and store the temperature on ctx. In backward,
   compute the softmax of (logits + noise)/temperature, and use it as y in exercise 1's formula.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.exercises.lesson_10_sampling._gumbel import (
    GUMBEL_INPUTS,
    HARD_SUSPECTS,
    SOFT_GRADIENTS,
    gumbel_softmax,
    last_never_wins,
    noise_gets_none_or_the_truth,
    one_hot_sample,
)
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import applied, found
from autograd_course.grader.exercise import FunctionExercise, by_values


def hard_gumbel_softmax(logits: Tensor, noise: Tensor, temperature: float) -> Tensor:
    """Return a one-hot vector for the largest ``logits + noise``, and ignore the temperature."""
    return one_hot_sample(logits, noise)


@by_values
def one_hot_at_a_tie(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that the output selects only one class if two classes tie for the maximum."""
    logits = torch.tensor([0.5, 2.0, -1.0, 2.0], dtype=torch.float64)
    (chosen,) = applied(function, (logits, torch.zeros_like(logits), 1.0))[1]
    if sorted(chosen.tolist()) == [0.0, 0.0, 0.0, 1.0]:
        return None
    return found(
        "forward-mismatch",
        f"for logits {logits.tolist()} without noise, the output is {chosen.tolist()}. Two classes "
        "share the maximum, and the output must choose one of them.",
        {"actual": chosen.tolist()},
        "argmax returns one index, but a comparison with the maximum marks both classes.",
    )


EXERCISE = FunctionExercise(
    answer="HardGumbelSoftmax",
    points=2,
    difficulty="easy",
    minutes=10,
    section="Hard",
    constraints="the output is one-hot, even in a tie, and has the gradient of the soft sample",
    reference=hard_gumbel_softmax,
    surrogate=gumbel_softmax,
    samplers={
        **GUMBEL_INPUTS,
        "the last class never wins": lambda rng: (*last_never_wins(rng, 3, 4), 0.7),
    },
    suspects=HARD_SUSPECTS,
    gradient_suspects=SOFT_GRADIENTS,
    double_backward=False,
    checks=(
        *CONDUCT,
        one_hot_at_a_tie,
        noise_gets_none_or_the_truth,
    ),
)
