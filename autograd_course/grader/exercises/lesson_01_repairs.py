"""The repairs of lesson 01: five Functions with one fault each."""

from typing import Any

import torch
from torch import Tensor

from autograd_course.grader.checks import (
    backward_is_a_formula,
    no_tensor_on_ctx,
    slope_within,
)
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import around, normal, positive, shaped, with_zeros

CONDUCT = (backward_is_a_formula, no_tensor_on_ctx)


def repair(**described: Any) -> FunctionExercise:
    """Return an exercise of one point in which a broken backward is to be repaired."""
    usual = {"lesson": "01_template", "points": 1, "checks": CONDUCT}
    return FunctionExercise(**{**usual, **described})


def cube(x: Tensor) -> Tensor:
    """Return ``x³``."""
    return x**3


def multiply(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x · y``."""
    return x * y


def mean(x: Tensor) -> Tensor:
    """Return the mean over the last axis."""
    return x.mean(-1)


def absolute(x: Tensor) -> Tensor:
    """Return ``|x|``."""
    return x.abs()


def power(x: Tensor, exponent: float) -> Tensor:
    """Return ``x`` to the power of a Python number."""
    return x**exponent


def both_signs(rng: torch.Generator, *shape: int) -> Tensor:
    """Return positive and negative numbers, none near 0."""
    return around(rng, (0.0,), *shape)


REPAIRS: tuple[FunctionExercise, ...] = (
    repair(
        id="repair-cube",
        title="Repair: cube",
        reference=cube,
        samplers={**shaped(normal), "zeros among the numbers": with_zeros},
        hints=(
            "Give the broken Function the loss 5·y instead of y. Every gradient should grow "
            "fivefold. Does it? Where would backward learn of the 5?",
            "backward returns the local derivative alone. What follows forward in the graph "
            "reaches backward only through its second argument.",
            "Keep 3·x² and multiply it by grad_output.",
        ),
        read='lesson 01, "What backward is asked for"',
    ),
    repair(
        id="repair-multiply",
        title="Repair: multiply",
        reference=multiply,
        samplers={
            **shaped(normal, count=2),
            "zeros among the numbers": lambda rng: (*with_zeros(rng), *with_zeros(rng)),
        },
        hints=(
            "Try x = 2 and y = 10. When x grows by a little, how fast does the product grow? "
            "Compare with the number that backward puts first.",
            "The first gradient belongs to forward's first argument. The derivative of x·y with "
            "respect to x is the *other* factor.",
            "Return y · grad_output first, x · grad_output second.",
        ),
        read='lesson 01, "Several inputs, several outputs"',
    ),
    repair(
        id="repair-mean",
        title="Repair: mean",
        reference=mean,
        samplers={
            "a 2×5 matrix": lambda rng: (normal(rng, 2, 5),),
            "a vector": lambda rng: (normal(rng, 5),),
            "three axes": lambda rng: (normal(rng, 2, 3, 6),),
            "a last axis of length 1": lambda rng: (normal(rng, 3, 1),),
        },
        hints=(
            "Move one of four numbers by 1. By how much does their mean move? And by how much does "
            "this backward say?",
            "The gradient is spread to the right places, but it is that of the sum. Which factor "
            "turns a sum into a mean? A constant factor stays when you differentiate.",
            "Divide by the length of the last axis, which forward has left in ctx.shape[-1].",
        ),
        read='lesson 01, "What backward is asked for"',
    ),
    repair(
        id="repair-absolute",
        title="Repair: absolute value",
        reference=absolute,
        checks=(*CONDUCT, slope_within(-1.0, 1.0, at=0.0)),
        samplers={
            "numbers of both signs": lambda rng: (both_signs(rng, 2, 3),),
            "negative numbers only": lambda rng: (-positive(rng, 4),),
            "three axes, one of length 1": lambda rng: (both_signs(rng, 2, 1, 3),),
            "a single number (0-dim)": lambda rng: (-positive(rng),),
        },
        hints=(
            "Sketch |x|. The backward is right on one half of the axis. What is the slope of the "
            "other half?",
            "The mask is that of a ReLU: it stops the gradient for negative x. The absolute value "
            "does not stop it there, it turns it round.",
            "The local derivative is the sign of x, which torch.sign computes: multiply it by "
            "grad_output.",
        ),
        read='lesson 01, "From the formula to the proof"',
    ),
    repair(
        id="repair-power",
        title="Repair: power",
        reference=power,
        samplers={
            "exponent 3": lambda rng: (both_signs(rng, 2, 3), 3),
            "exponent 3, zeros among the numbers": lambda rng: (*with_zeros(rng), 3),
            "exponent 0.5": lambda rng: (positive(rng, 5), 0.5),
            "exponent -2": lambda rng: (positive(rng, 2, 1, 3), -2.0),
            "a single number (0-dim)": lambda rng: (positive(rng), 1.5),
        },
        hints=(
            "Count the arguments of forward after ctx. Then count what backward returns.",
            "PyTorch hands the returned gradients to forward's arguments by position, so there "
            "must be one for each, also for an argument that is not a tensor.",
            "The formula is right. Return it together with None for the exponent.",
        ),
        read='lesson 01, "What backward returns"',
    ),
)
