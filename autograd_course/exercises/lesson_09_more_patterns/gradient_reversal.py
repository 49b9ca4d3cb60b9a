"""Gradient reversal

1. forward computes nothing, and the statement gives the formula for backward. What must forward
   return so that the next layer can overwrite its input?
2. Return a new tensor with the same values. The strength is a number, so make it an attribute of
   ctx. backward multiplies grad_output by the negative strength.
3. forward returns x.clone(), and setup_context sets ctx.strength. backward returns -ctx.strength ·
   grad_output, and None for the strength.
"""

from typing import Any

from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.errors import first_line
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import applied, found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def unchanged(x: Tensor, strength: float) -> Tensor:
    """Return a copy of ``x``."""
    return x.clone()


def reversed_gradient(x: Tensor, strength: float) -> Tensor:
    """Return ``-strength · x``, a surrogate with the reversed gradient."""
    return -strength * x


def may_be_changed(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that the next layer can modify the output in place."""
    (output,) = applied(function, inputs)[1]
    try:
        output.mul_(2)
    except RuntimeError as error:
        return found(
            "returns-view",
            f"right, but an in-place layer after it raises: {first_line(error)}",
            {},
            "A view of a copy is also a view. Return the copy itself.",
        )
    return None


EXERCISE = FunctionExercise(
    answer="GradientReversal",
    points=2,
    difficulty="easy",
    minutes=6,
    section="A gradient of your own",
    needs_sections=("A reversal as a Function",),
    constraints="forward returns a new tensor, neither x nor a view of it",
    reference=unchanged,
    surrogate=reversed_gradient,
    samplers={
        "a 3×5 matrix, strength 0.7": lambda rng: (normal(rng, 3, 5), 0.7),
        "a vector, strength 1": lambda rng: (normal(rng, 4), 1.0),
        "three dims, strength 3": lambda rng: (normal(rng, 2, 1, 3), 3.0),
        "a single number (0-dim)": lambda rng: (normal(rng), 0.1),
    },
    suspects={
        "The reversal belongs to backward. forward must not change the values.": reversed_gradient,
        "The strength belongs to backward. forward must not change the values.": (
            lambda x, strength: strength * x
        ),
        "forward changes the sign. It must not change the values.": lambda x, strength: -x,
    },
    gradient_suspects={
        "The factor strength is missing.": lambda x, strength: -x,
        "The minus sign is missing.": lambda x, strength: strength * x,
        "The gradient is neither reversed nor multiplied by the strength.": lambda x, strength: (
            1 * x
        ),
        "You divide by the strength. Multiply by it.": lambda x, strength: -x / strength,
        "You subtract the strength from 1. The factor is -strength.": (
            lambda x, strength: (1 - strength) * x
        ),
    },
    asked=("returns-view",),
    checks=(*CONDUCT, may_be_changed),
)
