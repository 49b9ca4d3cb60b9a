"""A coupling that keeps its outputs

1. You have y1 and y2. One of the two lines of forward can be solved for its x at once, because you
   know everything else in it. Which one?
2. x2 = y2 - tanh(y1 v). Now go backward through the lines of forward and start with the last one.
   Forward uses y1 twice, so add up both parts of its gradient before you go on. The same holds for
   x2.
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
    """Ask that neither of the first two inputs is saved."""
    given, outputs = applied(function, inputs)
    halves = {storage(tensor): name for tensor, name in zip(given, ("x1", "x2"), strict=False)}
    for position, saved in enumerate(outputs[0].grad_fn.saved_tensors):  # type: ignore[union-attr]
        if saved is not None and storage(saved) in halves:
            name = halves[storage(saved)]
            return found(
                "oversaved",
                f"Saved tensor number {position} is {name}, an input: this exercise allows the "
                "outputs, from which a whole stack of couplings can be walked back.",
                {"position": position, "input": name},
                "Save the outputs, and solve forward's lines for what backward needs, the last "
                "line first.",
            )
    return None


EXERCISE = FunctionExercise(
    answer="Coupling",
    points=3,
    difficulty="hard",
    minutes=25,
    section="Invert instead of keeping",
    constraints="of the activations only the outputs are kept",
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
        "halves one wide": lambda rng: (
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
