"""Snake

1. forward needs no ctx. What does backward read, and which of these values are tensors?
2. Save x with save_for_backward, and store a as an attribute, both in setup_context. By the chain
   rule, the derivative 1 + sin(2 a x) is multiplied by grad_output.
3. In setup_context: x, ctx.a = inputs, then ctx.save_for_backward(x). In backward: (x,) =
   ctx.saved_tensors, then return grad_output * (1 + torch.sin(2 * ctx.a * x)), and None for a.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, keeps_at_most
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def snake(x: Tensor, a: float) -> Tensor:
    """Return ``x + sin²(a x) / a``."""
    return x + torch.sin(a * x) ** 2 / a


EXERCISE = FunctionExercise(
    answer="Snake",
    points=2,
    difficulty="easy",
    minutes=10,
    section="Separate forward and setup_context",
    constraints="nothing but x is saved",
    reference=snake,
    samplers={
        "a = 2": lambda rng: (normal(rng, 2, 3), 2.0),
        "a slow wave": lambda rng: (normal(rng, 5), 0.3),
        "three dimensions, one of length 1": lambda rng: (normal(rng, 2, 1, 3), 1.0),
        "a single number (0-dim)": lambda rng: (normal(rng), 5.0),
    },
    checks=(*CONDUCT, keeps_at_most(lambda x, a: x.nbytes, "x itself")),
)
