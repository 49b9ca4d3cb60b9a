"""Repair: nan since the outlier

1. Take x = 1000 and evaluate the formula of backward one operation at a time. What is the first
   number that is not finite?
2. exp(1000) is inf, and inf/inf is nan. The quotient itself is close to 1. Find another formula for
   the same function that works for both signs of x.
3. (eˣ - e⁻ˣ) / (eˣ + e⁻ˣ) is tanh(x), which PyTorch computes without overflow.
"""

import math

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, positive


def log_cosh(x: Tensor) -> Tensor:
    """Return ``log(cosh(x))``, even if ``cosh(x)`` overflows."""
    return x.abs() + torch.nn.functional.softplus(-2 * x.abs()) - math.log(2)


def signed(rng: torch.Generator, magnitude: float, *shape: int) -> Tensor:
    """Return numbers of both signs, with absolute values up to about ``magnitude``."""
    return magnitude * (positive(rng, *shape) - 1.25)


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
    checks=CONDUCT,
    modeled_on="snntorch #427: the exponential of a surrogate gradient overflowed, and the "
    "weights became nan",
)
