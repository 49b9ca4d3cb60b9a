"""A coupling that saves its outputs

1. Backward knows y1 and y2. In one of the two lines of forward, you know everything but one x, so
   you can solve this line for it. Which line?
2. x2 = y2 - tanh(y1 v). Now go backward through the lines of forward and start with the last one.
   Forward uses y1 twice, so add both parts of its gradient before you go on. Forward also uses x2
   twice.
3. b = tanh(y1 @ v); db = grad_y2 * (1 - b**2); add db @ v.t() to grad_y1. Then x2 = y2 - b, a =
   tanh(x2 @ w), da = (the new grad_y1) * (1 - a**2). The gradients are grad_y1, grad_y2 + da @
   w.t(), x2.t() @ da and y1.t() @ db. You do not need x1.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.exercises.lesson_07_memory_patterns._saved import (
    bytes_of,
    keeps_no_intermediate,
)
from autograd_course.grader.checks import CONDUCT, keeps_at_most, no_copy_on_ctx
from autograd_course.grader.checks.calling import applied, found, storage
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def coupling(x1: Tensor, x2: Tensor, w: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``y1 = x1 + tanh(x2 w)`` and ``y2 = x2 + tanh(y1 v)``."""
    y1 = x1 + torch.tanh(x2 @ w)
    return y1, x2 + torch.tanh(y1 @ v)


def forgets_the_halves(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that forward saves neither ``x1`` nor ``x2``."""
    given, outputs = applied(function, inputs)
    halves = {storage(tensor): name for tensor, name in zip(given, ("x1", "x2"), strict=False)}
    for position, saved in enumerate(outputs[0].grad_fn.saved_tensors):  # type: ignore[union-attr]
        if saved is not None and storage(saved) in halves:
            name = halves[storage(saved)]
            return found(
                "oversaved",
                f"Saved tensor number {position} is the input `{name}`. This exercise allows only "
                "the outputs and the weights, so that a stack of couplings saves no activations.",
                {"position": position, "input": name},
                "Save the outputs, and solve the lines of forward for what backward needs. Start "
                "with the last line.",
            )
    return None


EXERCISE = FunctionExercise(
    answer="Coupling",
    points=3,
    difficulty="hard",
    minutes=25,
    section="Reconstruct the input",
    constraints="no activations but the outputs are saved",
    reference=coupling,
    samplers={
        "a batch of 5 rows": lambda rng: (
            *(normal(rng, 5, 3), normal(rng, 5, 2)),
            *(normal(rng, 2, 3), normal(rng, 3, 2)),
        ),
        "a single row": lambda rng: (
            *(normal(rng, 1, 4), normal(rng, 1, 4)),
            *(normal(rng, 4, 4), normal(rng, 4, 4)),
        ),
        "halves of width 1": lambda rng: (
            *(normal(rng, 6, 1), normal(rng, 6, 1)),
            *(normal(rng, 1, 1), normal(rng, 1, 1)),
        ),
    },
    checks=(
        *CONDUCT,
        no_copy_on_ctx,
        keeps_at_most(
            lambda x1, x2, w, v: bytes_of(x1, x2, w, v), "the two outputs and the two weights"
        ),
        forgets_the_halves,
        keeps_no_intermediate,
    ),
)
