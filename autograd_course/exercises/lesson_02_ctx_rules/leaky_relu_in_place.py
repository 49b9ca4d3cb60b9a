"""Leaky ReLU in place

1. When backward runs, x contains y. The slope is positive. Can you tell from y alone on which side
   of 0 the input was?
2. Do three things: change x with an in-place operation, return x itself, and tell autograd in
   setup_context that x was overwritten. Where the output is negative, the local derivative is the
   slope.
3. In forward, return x.copy_(torch.where(x > 0, x, slope * x)). In setup_context, call
   ctx.mark_dirty(x) and ctx.save_for_backward(output), and store the slope. In backward, return
   grad_output where the saved tensor is positive and slope times grad_output elsewhere, and None
   for the slope.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.calls import as_tuple
from autograd_course.execution import applied as called
from autograd_course.execution import differentiable
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import found, storage
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import around
from autograd_course.grader.suspecting import returning


def leaky_relu(x: Tensor, slope: float) -> Tensor:
    """Return ``x`` where ``x > 0``, and ``slope · x`` elsewhere."""
    return torch.nn.functional.leaky_relu(x, slope)


def works_in_place(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that the output shares the memory of the input."""
    given = differentiable(inputs)
    before = storage(given[0])  # x.data = … would give x new memory
    if storage(as_tuple(called(function, given))[0]) == before:
        return None
    return found(
        "wrong-mark-dirty",
        "`forward` returns a tensor with other memory than x. In this exercise it must "
        "overwrite x and return x itself.",
        {},
        "Which operations end in an underscore, and what do they return? Then declare the "
        "in-place change to autograd.",
    )


EXERCISE = FunctionExercise(
    answer="LeakyReLUInPlace",
    points=2,
    difficulty="easy",
    minutes=10,
    section="Writing in place: mark_dirty",
    constraints="x itself is overwritten and returned",
    reference=leaky_relu,
    samplers={
        "a matrix, slope 0.1": lambda rng: (around(rng, (0.0,), 3, 5), 0.1),
        "a vector, slope 0.5": lambda rng: (around(rng, (0.0,), 4), 0.5),
        "three dimensions, one of length 1": lambda rng: (around(rng, (0.0,), 2, 1, 3), 0.01),
        "a single number (0-dim)": lambda rng: (around(rng, (0.0,)), 0.2),
    },
    suspects={
        "Positive numbers are multiplied by the slope, too. They stay as they are.": (
            lambda x, slope: slope * x
        ),
        "The two sides are exchanged: the slope belongs to the numbers that are not positive.": (
            lambda x, slope: torch.where(x > 0, slope * x, x)
        ),
        "Negative numbers become 0. They keep their slope.": lambda x, slope: x.clamp(min=0),
        "slope · x is added to the negative numbers. It replaces them.": lambda x, slope: (
            x + slope * x.clamp(max=0)
        ),
    },
    gradient_suspects={
        "This multiplies by the output, as in `forward`. backward needs the slope of each piece: 1 "
        "or the slope.": returning(
            leaky_relu, lambda x, slope, g: g * torch.nn.functional.leaky_relu(x, slope)
        ),
        "This multiplies by the piece that belongs to the saved output. backward needs the slope "
        "of each piece: 1 or the slope.": returning(
            leaky_relu, lambda x, slope, g: g * torch.where(x > 0, x, slope * slope * x)
        ),
        "The positive side is multiplied by the slope, too. `forward` leaves it as it is.": (
            returning(leaky_relu, lambda x, slope, g: g * slope)
        ),
    },
    checks=(*CONDUCT, works_in_place),
)
