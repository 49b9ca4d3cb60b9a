"""Repair: graph breaks

1. Read both methods line by line. Which lines need a value, and which lines do something besides
   computing?
2. Replace the branch by torch.where, which computes both sides and selects elementwise. Remove the
   counter. Write backward as a formula instead of calling autograd. What is the slope on each of
   the three pieces?
3. forward returns torch.where(x.abs() <= delta, x**2 / 2, delta * (x.abs() - delta / 2)). backward
   returns x.clamp(-delta, delta) * grad_output, and None for delta.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from autograd_doctor.extension import describe_error
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import huber_loss

from autograd_course.calls import as_tuple
from autograd_course.execution import differentiable
from autograd_course.grader.checks.calling import backward, found
from autograd_course.grader.compiling import compile_unbroken, silence
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import around


def huber(x: Tensor, delta: float) -> Tensor:
    """Return ``x²/2`` where ``|x| ≤ delta``, and the tangent line elsewhere."""
    return huber_loss(x, torch.zeros_like(x), reduction="none", delta=delta)


def errors(rng: torch.Generator, delta: float, *shape: int) -> tuple[Tensor, float]:
    """Return numbers on both sides of each kink, and ``delta``."""
    return around(rng, (-delta, delta), *shape), delta


SECONDS = 120.0  # on a busy machine, the imports of the first torch.compile take half a minute


def compiles_whole(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that PyTorch can trace forward as a single graph, and backward as well."""
    try:
        with silence():
            backward(list(as_tuple(compile_unbroken(function.apply)(*differentiable(inputs)))))
    except Exception as error:
        failure = describe_error(error)
        return found(
            "compile-mismatch",
            "The results are right, but `torch.compile` cannot trace the call into a single "
            f"graph: {failure.text}",
            {}
            if failure.line.startswith("compiles_whole")
            else {"exception": failure.kind, "text": failure.text, "line": failure.line},
            "During tracing, tensors have no values, and side effects are lost. Select values with "
            "`torch.where` instead of `if`. Avoid shapes that depend on values, such as the number "
            "of elements that a mask selects. Write `backward` as a formula.",
        )
    return None


EXERCISE = FunctionExercise(
    answer="Huber",
    points=2,
    difficulty="medium",
    minutes=10,
    section="Graph breaks",
    constraints="torch.compile makes one graph of it",
    reference=huber,
    samplers={
        "a 3×5 matrix": lambda rng: errors(rng, 1.0, 3, 5),
        "a vector, a small delta": lambda rng: errors(rng, 0.25, 6),
        "three dims, one of length 1": lambda rng: errors(rng, 2.0, 2, 1, 3),
    },
    methods=("setup_context",),
    checks=(compiles_whole,),
    seconds=SECONDS,
)
