"""Repair: nan since the outlier

1. Take x = 1000 and evaluate the formula of backward one operation at a time. What is the first
   number that is not finite?
2. exp(1000) is inf, and inf/inf is nan. The quotient itself is close to 1. Find another formula for
   the same function that works for both signs of x.
3. (eˣ - e⁻ˣ) / (eˣ + e⁻ˣ) is tanh(x), which PyTorch computes without overflow.
"""

import math
from typing import Any

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, positive
from autograd_course.grader.suspecting import returning


def log_cosh(x: Tensor) -> Tensor:
    """Return ``log(cosh(x))``, even if ``cosh(x)`` overflows."""
    return x.abs() + torch.nn.functional.softplus(-2 * x.abs()) - math.log(2)


def signed(rng: torch.Generator, magnitude: float, *shape: int) -> Tensor:
    """Return numbers with absolute values up to about ``magnitude``.

    The first number is large and positive, and the second one is large and negative.
    """
    x = magnitude * (positive(rng, *shape) - 1.25)
    large = x.view(-1)[:2]
    large.copy_(large.abs().clamp_min(0.6 * magnitude) * torch.tensor([1.0, -1.0]))
    return x


def replaced(by: float) -> Any:
    """Return a suspect that replaces nan in its gradient with a number."""

    def backward(x: Tensor, g: Tensor) -> Tensor:
        up, down = x.exp(), (-x).exp()
        return g * ((up - down) / (up + down)).nan_to_num(by)

    return returning(log_cosh, backward)


EXERCISE = FunctionExercise(
    answer="LogCosh",
    points=1,
    difficulty="easy",
    minutes=5,
    optional=True,
    section="Where a nan comes from",
    constraints="the result is finite and right for large numbers of both signs",
    reference=log_cosh,
    samplers={
        "a 3×4 matrix": lambda rng: (normal(rng, 3, 4),),
        "outliers of up to 1000": lambda rng: (signed(rng, 1333.0, 6),),
        "outliers of up to 50": lambda rng: (signed(rng, 66.0, 2, 1, 3),),
        "a single number (0-dim)": lambda rng: (normal(rng),),
    },
    gradient_suspects={
        "The sigmoid lies between 0 and 1. The slope lies between -1 and 1: it is 2σ(2x) - 1, "
        "which is tanh(x).": returning(log_cosh, lambda x, g: g * torch.sigmoid(2 * x)),
        "This is tanh(x / 2). The factor 2 inside the sigmoid is missing.": returning(
            log_cosh, lambda x, g: g * torch.tanh(x / 2)
        ),
        "Where the exponential overflows, the slope is always 1 here. For large negative x it is "
        "-1. Use a formula that does not overflow, instead of replacing nan.": replaced(1.0),
        "Where the exponential overflows, the slope is 0 here. It is close to 1 or -1. Use a "
        "formula that does not overflow, instead of replacing nan.": replaced(0.0),
    },
    checks=CONDUCT,
    modeled_on="snntorch #427: the exponential of a surrogate gradient overflowed, and the "
    "weights became nan",
)
