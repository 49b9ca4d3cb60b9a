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

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.execution import Raised, run_backward
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import returning


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return ``log Σ exp x - x[target]`` for each row of logits."""
    return torch.nn.functional.cross_entropy(logits, target, reduction="none")


def labeled(rng: torch.Generator, rows: int, classes: int) -> tuple[Tensor, Tensor]:
    """Return logits and a target class for each row."""
    target = torch.randint(classes, (rows,), generator=rng, device="cpu")
    return normal(rng, rows, classes), target


def needs_the_last_class(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Return a finding if backward raises an error only if no row has the last class."""
    logits, target = inputs
    classes = logits.shape[-1]
    with_last, without_last = target.clone(), target.clamp(max=classes - 2)
    with_last[0] = classes - 1
    raised = [run_backward(function, (logits, each)) for each in (with_last, without_last)]
    if raised[0] is not None or not isinstance(raised[1], Raised):
        return None
    return found(
        "backward-raises",
        "The classes are counted in the target.",
        {},
        "`backward` works only if the last class occurs in target. From the target alone, one_hot "
        "takes the largest class that occurs for the last one. Tell it the number of classes.",
    )


def minus_the_number(logits: Tensor, target: Tensor, g: Tensor) -> Tensor:
    """Return a gradient that subtracts the class index instead of the one-hot row."""
    return (logits.softmax(-1) - target.unsqueeze(-1)) * g.unsqueeze(-1)


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
    gradient_suspects={
        "The number of the class is subtracted from every probability. Subtract 1, and only at the "
        "position of the class.": returning(cross_entropy, minus_the_number),
    },
    causes=(needs_the_last_class,),
    checks=CONDUCT,
)
