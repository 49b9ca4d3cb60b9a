"""Gumbel-softmax, hard

1. The one-hot vector has no gradient worth having. Which smooth vector stands in for it, and what
   must forward leave for backward so that its gradient can be had?
2. backward is word for word that of the soft mode, at the same noise. It needs the soft sample,
   which forward computes but does not return.
3. In forward: soft = softmax of (logits + noise)/temperature; save soft, return the one-hot vector
   of its argmax, in the dtype of the logits. In backward: the soft formula with the saved soft.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.exercises.lesson_05_straight_through._gumbel import (
    GUMBEL_INPUTS,
    gumbel_softmax,
    noise_gets_none_or_the_truth,
)
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import applied, found
from autograd_course.grader.exercise import FunctionExercise


def hard_gumbel_softmax(logits: Tensor, noise: Tensor, temperature: float) -> Tensor:
    """Return the one-hot vector of the largest ``logits + noise``."""
    largest = (logits + noise).argmax(-1)
    return torch.nn.functional.one_hot(largest, logits.shape[-1]).to(logits)


def one_hot_at_a_tie(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that one class alone is chosen where two are the largest alike."""
    logits = torch.tensor([0.5, 2.0, -1.0, 2.0], dtype=torch.float64)
    (chosen,) = applied(function, (logits, torch.zeros_like(logits), 1.0))[1]
    if sorted(chosen.tolist()) == [0.0, 0.0, 0.0, 1.0]:
        return None
    return found(
        "forward-mismatch",
        f"for logits {logits.tolist()} and no noise the output is {chosen.tolist()}: two classes "
        "are the largest alike, and one of them is to be chosen.",
        {"actual": chosen.tolist()},
        "Where does the largest element stand? argmax names one place, a comparison with the "
        "maximum marks all.",
    )


EXERCISE = FunctionExercise(
    answer="HardGumbelSoftmax",
    points=2,
    difficulty="easy",
    minutes=10,
    section="Hard",
    bounds="the output is one-hot, also at a tie, and its gradient that of the soft sample",
    reference=hard_gumbel_softmax,
    surrogate=gumbel_softmax,
    samplers=GUMBEL_INPUTS,
    double_backward=False,
    checks=(
        *CONDUCT,
        one_hot_at_a_tie,
        noise_gets_none_or_the_truth,
    ),
)
