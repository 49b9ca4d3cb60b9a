"""SwiGLU that recomputes

1. y is the product of two factors, s = a σ(a) and b. Each gradient needs the other factor. The
   gradient with respect to a also needs the derivative of a · σ(a). Which of these can backward
   compute from a?
2. Save a and b. In backward, compute sigma = torch.sigmoid(a). The derivative of a σ(a) is in the
   section "Recompute a cheap value".
3. grad_a = grad_output * b * (sigma + a * sigma * (1 - sigma)), and grad_b = grad_output * a *
   sigma.
"""

import torch
from torch import Tensor

from autograd_course.exercises.lesson_07_memory_patterns._saved import (
    bytes_of,
    keeps_no_intermediate,
)
from autograd_course.grader.checks import CONDUCT, keeps_at_most, no_copy_on_ctx
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def swiglu(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a σ(a) b``."""
    return torch.nn.functional.silu(a) * b


EXERCISE = FunctionExercise(
    answer="SwiGLU",
    points=2,
    difficulty="easy",
    minutes=9,
    section="Recompute a cheap value",
    constraints="nothing but the two inputs is saved for backward",
    reference=swiglu,
    samplers={
        "a matrix": lambda rng: (normal(rng, 4, 6), normal(rng, 4, 6)),
        "three dimensions": lambda rng: (normal(rng, 3, 1, 5), normal(rng, 3, 1, 5)),
        "a single number (0-dim)": lambda rng: (normal(rng), normal(rng)),
    },
    checks=(
        *CONDUCT,
        no_copy_on_ctx,
        keeps_at_most(lambda a, b: bytes_of(a, b), "the two inputs, and nothing else"),
        keeps_no_intermediate,
    ),
)
