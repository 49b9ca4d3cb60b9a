"""Repair: the penalty that misleads

1. The penalty differentiates backward. backward uses two saved tensors, and both depend on x. For
   which of the two does autograd know this?
2. x is an input, so it is connected to the graph. r was computed in forward, where autograd records
   nothing, so r is a constant for autograd. If backward computes r from x, autograd records it.
3. Save only x. Begin backward with r = (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt(), without
   detach or no_grad. The last line stays as it is.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import returning


def rms_norm(x: Tensor) -> Tensor:
    """Return ``x / √(mean(x²) + 1e-6)`` along the last dim."""
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def scaled_by(scale: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """Return a suspect whose backward computes the factor r as ``scale(mean_square)``."""

    def backward(x: Tensor, g: Tensor) -> Tensor:
        r = scale(x.square().mean(-1, keepdim=True))
        return r * g - r**3 * x * (g * x).mean(-1, keepdim=True)

    return returning(rms_norm, backward)


EXERCISE = FunctionExercise(
    answer="RMSNorm",
    points=2,
    difficulty="medium",
    minutes=10,
    optional=True,
    section="A second derivative that is wrong",
    reference=rms_norm,
    samplers={
        "3 rows of 4": lambda rng: (normal(rng, 3, 4),),
        "a vector": lambda rng: (normal(rng, 5),),
        "three dims, one of length 1": lambda rng: (normal(rng, 2, 1, 3),),
    },
    double_backward=True,
    gradient_suspects={
        "`backward` does not add 1e-6 to the mean.": scaled_by(lambda mean: mean.rsqrt()),
        "`backward` adds 1e-6 to 1/√mean. `forward` adds it under the root.": scaled_by(
            lambda mean: mean.rsqrt() + 1e-6
        ),
        "`backward` adds 1e-6 to the root. `forward` adds it under the root.": scaled_by(
            lambda mean: 1 / (mean.sqrt() + 1e-6)
        ),
    },
    checks=CONDUCT,
    modeled_on="PyTorch #58509: saved intermediates of a Function give wrong second derivatives",
)
