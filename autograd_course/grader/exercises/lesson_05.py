"""The exercises of lesson 05: Functions that are right twice, and two routines that rely on it."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from autograd_course.grader.checks import (
    backward_is_a_formula,
    no_tensor_on_ctx,
    saves_only_outputs,
)
from autograd_course.grader.exercise import Exercise, FunctionExercise, Sampler
from autograd_course.grader.exercises.lesson_05_routines import ROUTINES
from autograd_course.grader.sampling import normal, shaped, with_zeros

LESSON = "05_double_backward"
TITLE = "Gradients of gradients"


def twice(**described: Any) -> FunctionExercise:
    """Return an exercise whose second derivatives must be right too."""
    usual = {
        "lesson": LESSON,
        "double_backward": True,
        "checks": (backward_is_a_formula, no_tensor_on_ctx),
    }
    return FunctionExercise(**{**usual, **described})


def cube(x: Tensor) -> Tensor:
    """Return ``x³``."""
    return x**3


def exponential(x: Tensor) -> Tensor:
    """Return ``exp x``."""
    return x.exp()


def sinh(x: Tensor) -> Tensor:
    """Return ``sinh x``."""
    return x.sinh()


def logsumexp(x: Tensor) -> Tensor:
    """Return ``log Σ exp x`` over the last axis."""
    return torch.logsumexp(x, -1)


def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """Return ``log Σ exp x - x[target]`` for each row of logits."""
    return torch.nn.functional.cross_entropy(logits, target, reduction="none")


def labeled(rng: torch.Generator, rows: int, classes: int) -> tuple[Tensor, Tensor]:
    """Return logits and a class for each row."""
    target = torch.randint(classes, (rows,), generator=rng, device="cpu")
    return normal(rng, rows, classes), target


ROWS: Mapping[str, Sampler] = {
    "a 3×5 matrix": lambda rng: (normal(rng, 3, 5),),
    "a vector": lambda rng: (normal(rng, 5),),
    "three axes, one of length 1": lambda rng: (normal(rng, 2, 1, 3),),
    "a last axis of length 1": lambda rng: (normal(rng, 4, 1),),
}

LABELED: Mapping[str, Sampler] = {
    "3 rows of 5 classes": lambda rng: labeled(rng, 3, 5),
    "a single row": lambda rng: labeled(rng, 1, 4),
    "two classes": lambda rng: labeled(rng, 6, 2),
}

WRITE: tuple[FunctionExercise, ...] = (
    twice(
        id="cube-twice",
        title="Cube, twice",
        points=1,
        reference=cube,
        samplers={**shaped(normal), "zeros among the numbers": with_zeros},
        hints=(
            "Your gradient will be differentiated once more. Which of the tensors that forward has "
            "at hand will autograd still know as a function of x, when backward reads it from ctx?",
            "Inputs and outputs carry a graph, whatever else forward computed is a constant. So "
            "everything that backward derives from x it should compute itself, from the saved x.",
            "Save x alone. In backward return 3 * x**2 * grad_output, with no detach, no .data and "
            "no decorator: that formula is recorded, and differentiates itself.",
        ),
        read='lesson 05, "What carries a graph"',
    ),
    twice(
        id="exp-twice",
        title="Exponential, twice",
        points=1,
        reference=exponential,
        samplers=shaped(normal),
        hints=(
            "The derivative of exp is exp: the number that backward needs is the very one that "
            "forward returns. Does it matter which tensor holds it?",
            "It does. The output is part of the graph; a second tensor of the same numbers, "
            "computed beside it, is an intermediate and a constant.",
            "y = x.exp(); ctx.save_for_backward(y); return y – one tensor, saved and returned. "
            "backward returns y * grad_output.",
        ),
        read='lesson 05, "Compute it again"',
        checks=(backward_is_a_formula, no_tensor_on_ctx, saves_only_outputs),
        bounds="nothing but the output is kept for backward",
    ),
    twice(
        id="sinh-by-output",
        title="Hyperbolic sine by its output",
        points=2,
        reference=sinh,
        samplers=shaped(normal),
        hints=(
            "The derivative of sinh is cosh. Which identity connects the two, as the one of "
            "Pythagoras connects sine and cosine?",
            "cosh² - sinh² = 1, and cosh is never negative. So cosh(x) can be written with the "
            "output y alone, and the output has a graph.",
            "cosh(x) = √(1 + y²). Save y, the tensor that forward returns; in backward multiply "
            "grad_output by (1 + y**2).sqrt().",
        ),
        read='lesson 05, "Compute it again"',
        checks=(backward_is_a_formula, no_tensor_on_ctx, saves_only_outputs),
        bounds="nothing but the output is kept for backward",
    ),
    twice(
        id="logsumexp-hessian",
        title="Log-sum-exp with its Hessian",
        points=3,
        reference=logsumexp,
        samplers=ROWS,
        hints=(
            "The gradient is the softmax. Computed in forward it is an intermediate, and the "
            "Hessian is zero. What can the softmax be computed from in backward?",
            "Either from the saved input alone, or from input and output together: the output is "
            "the logarithm of the softmax's denominator. But only the very tensor that forward "
            "returns has a graph; one with the axis kept, or put back in forward, has none.",
            "Save x and y = torch.logsumexp(x, -1). The softmax is exp(x - y.unsqueeze(-1)); "
            "multiply it by grad_output.unsqueeze(-1), since grad_output has no last axis.",
        ),
        read='lesson 05, "The Hessian"',
    ),
)

REPAIR: tuple[FunctionExercise, ...] = (
    twice(
        id="repair-hessian",
        title="Repair: a Hessian of zeros",
        points=2,
        reference=cross_entropy,
        samplers=LABELED,
        hints=(
            "Look at what forward saves. Is it an input, an output, or something computed on the "
            "way? What is that to a second derivative?",
            "The finished gradient is saved: a constant. Let forward save what the gradient is "
            "computed from, and move the computation to backward, where it is recorded. The target "
            "is a tensor of integers and may be saved like any other.",
            "Save logits and target. In backward p = torch.softmax(logits, -1), subtract "
            "torch.nn.functional.one_hot(target, logits.shape[-1]), multiply by "
            "grad_output.unsqueeze(-1), and return it with a None for target.",
        ),
        read='lesson 05, "Three repairs"',
    ),
)

EXERCISES: tuple[Exercise, ...] = (*WRITE, *ROUTINES, *REPAIR)
