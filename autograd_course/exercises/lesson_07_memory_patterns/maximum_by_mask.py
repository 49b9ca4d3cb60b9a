"""Maximum, saved as a mask

1. Where a is larger, the whole gradient goes to a. What does backward need to know about an
   element, and how many bytes does that take?
2. In setup_context, compute a mask of where a is larger, and save nothing else. A torch.bool takes
   one byte. Backward gives the gradient to a where the mask is true, and to b elsewhere.
3. ctx.save_for_backward(a > b) in setup_context. In backward, (a_wins,) = ctx.saved_tensors; return
   grad_output * a_wins, grad_output * ~a_wins.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, keeps_at_most, no_copy_on_ctx
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def maximum(a: Tensor, b: Tensor) -> Tensor:
    """Return the elementwise maximum."""
    return torch.maximum(a, b)


EXERCISE = FunctionExercise(
    answer="Maximum",
    points=2,
    difficulty="easy",
    minutes=8,
    section="Save something smaller",
    constraints="at most one byte for each element is saved for backward",
    reference=maximum,
    samplers={
        "a matrix": lambda rng: (normal(rng, 4, 6), normal(rng, 4, 6)),
        "three dimensions": lambda rng: (normal(rng, 3, 1, 5), normal(rng, 3, 1, 5)),
        "a single number (0-dim)": lambda rng: (normal(rng), normal(rng)),
    },
    checks=(
        *CONDUCT,
        no_copy_on_ctx,
        keeps_at_most(lambda a, b: a.numel(), "one byte for each element"),
    ),
)
