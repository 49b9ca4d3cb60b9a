"""SwiGLU that recomputes

1. y is the product of two factors, s = a σ(a) and b. Each gradient needs the other factor. The
   gradient with respect to a also needs the derivative of a · σ(a). Which of these can backward
   compute from a?
2. Save a and b. In backward, compute sigma = torch.sigmoid(a). The derivative of a σ(a) is in the
   section "Recompute a cheap value".
3. grad_a = grad_output * b * (sigma + a * sigma * (1 - sigma)), and grad_b = grad_output * a *
   sigma.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from autograd_course.exercises.lesson_07_memory_patterns._saved import (
    bytes_of,
    keeps_no_intermediate,
)
from autograd_course.grader.checks import CONDUCT, MANY, keeps_at_most, no_copy_on_ctx, on
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import mistaken


def swiglu(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a σ(a) b``."""
    return torch.nn.functional.silu(a) * b


def gated(of_a: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """Return a SwiGLU in which ``of_a(a, sigma)`` replaces the derivative of ``a σ(a)``."""

    def backward(inputs: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        a, b = inputs
        sigma = torch.sigmoid(a)
        return g * b * of_a(a, sigma), g * a * sigma

    return mistaken(swiglu, backward)


def with_sigma_of_b(inputs: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of a backward that computes the sigmoid of ``b`` instead of ``a``."""
    a, b = inputs
    sigma = torch.sigmoid(b)
    return g * b * (sigma + a * sigma * (1 - sigma)), g * a * sigma


SWIGLU_SUSPECTS: Mapping[str, Callable[..., Any]] = {
    "The sigmoid is computed from b. It must be the sigmoid of a, the first argument.": (
        lambda a, b: a * torch.sigmoid(b) * b
    ),
    "The factor a is missing. The formula multiplies three factors: a, σ(a) and b.": (
        lambda a, b: torch.sigmoid(a) * b
    ),
    "The factor b is missing. The formula multiplies three factors: a, σ(a) and b.": (
        lambda a, b: a * torch.sigmoid(a)
    ),
}
SWIGLU_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "The gradient of a contains only σ(a). It treats the sigmoid as a constant, but σ(a) also "
    "depends on a. By the product rule there is a second term.": gated(lambda a, sigma: sigma),
    "The gradient of a contains only a times the derivative of σ(a). The product rule for a · σ(a) "
    "gives a second term: the derivative of the factor a.": (
        gated(lambda a, sigma: a * sigma * (1 - sigma))
    ),
    "The gradient of a contains only the derivative of σ(a). But y contains a · σ(a), so use the "
    "product rule.": gated(lambda a, sigma: sigma * (1 - sigma)),
    "In the gradient of a, the derivative of σ(a) lacks the factor a. The product rule for "
    "a · σ(a) multiplies the derivative of each factor by the other factor.": (
        gated(lambda a, sigma: sigma + sigma * (1 - sigma))
    ),
    "The derivative of σ is σ · (1 - σ), not σ · (1 + σ).": (
        gated(lambda a, sigma: sigma + a * sigma * (1 + sigma))
    ),
    "The two terms of the product rule have different signs in your gradient of a. They must be "
    "added.": gated(lambda a, sigma: sigma - a * sigma * (1 - sigma)),
    "Your derivative of σ(a) is 1 - σ. It lacks the factor σ.": (
        gated(lambda a, sigma: sigma + a * (1 - sigma))
    ),
    "backward computes the sigmoid of b. forward computes the sigmoid of a.": (
        mistaken(swiglu, with_sigma_of_b)
    ),
}

only_inputs = keeps_at_most(lambda a, b: bytes_of(a, b), "the two inputs, and nothing else")

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
    suspects=SWIGLU_SUSPECTS,
    gradient_suspects=SWIGLU_GRADIENTS,
    checks=(
        *CONDUCT,
        no_copy_on_ctx,
        only_inputs,
        on(lambda rng: (normal(rng, *MANY), normal(rng, *MANY)), only_inputs),
        keeps_no_intermediate,
    ),
)
