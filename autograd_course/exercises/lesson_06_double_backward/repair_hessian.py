"""Repair: a Hessian of zeros

1. Look at what forward saves. Is it an input, an output, or an intermediate? What does this mean
   for a second derivative?
2. forward saves the complete gradient, which is a constant. Save the tensors from which the
   gradient is computed, and move the computation to backward, where autograd records it. The target
   is a tensor of integers, and you can save it like any other tensor.
3. Save logits and target. In backward, compute p = torch.softmax(logits, -1), subtract
   torch.nn.functional.one_hot(target, logits.shape[-1]), and multiply by grad_output.unsqueeze(-1).
   Return this, and None for target.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return ``log Σ exp x - x[target]`` for each row of logits."""
    return torch.nn.functional.cross_entropy(logits, target, reduction="none")


def labeled(rng: torch.Generator, rows: int, classes: int) -> tuple[Tensor, Tensor]:
    """Return logits and a target class for each row."""
    target = torch.randint(classes, (rows,), generator=rng, device="cpu")
    return normal(rng, rows, classes), target


EXERCISE = FunctionExercise(
    answer="CrossEntropy",
    points=2,
    difficulty="medium",
    minutes=10,
    section="Three repairs",
    reference=cross_entropy,
    samplers={
        "3 rows of 5 classes": lambda rng: labeled(rng, 3, 5),
        "a single row": lambda rng: labeled(rng, 1, 4),
        "two classes": lambda rng: labeled(rng, 6, 2),
    },
    double_backward=True,
    checks=CONDUCT,
)
