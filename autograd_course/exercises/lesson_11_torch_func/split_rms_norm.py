"""Split an old Function

1. Sort the lines of the old forward by the question whether they use ctx. What of it does
   setup_context see, and what does it not see?
2. rstd is neither input nor output, so it becomes a second output, marked as not differentiable.
   Then backward gets a second argument too, which it does not use. And the class says in one line
   that vmap may derive its own rule.
3. forward(x, weight, eps) returns (x * rstd * weight, rstd). setup_context takes x, weight, eps =
   inputs and _, rstd = output; it calls mark_non_differentiable(rstd) and saves x, weight and rstd.
   backward(ctx, grad_output, _) has the old formulas.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import no_gradient_through
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return ``x`` over its root mean square, times ``weight``; and the factor, as a constant."""
    rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    return x * rstd * weight, rstd.detach()


def normed(rng: torch.Generator, *shape: int, eps: float = 1e-5) -> tuple[Tensor, Tensor, float]:
    """Return rows, a weight for each column, and ``eps``."""
    return normal(rng, *shape), 1 + 0.3 * normal(rng, shape[-1]), eps


def differentiable_rms_norm(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the same, with a gradient through the factor."""
    rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    return x * rstd * weight, rstd


EXERCISE = FunctionExercise(
    answer="RMSNorm",
    points=2,
    difficulty="medium",
    minutes=20,
    section="Two forms of one Function",
    constraints="torch.func takes it",
    reference=rms_norm,
    samplers={
        "a batch of 3 rows": lambda rng: normed(rng, 3, 5),
        "three axes, one of length 1": lambda rng: normed(rng, 2, 1, 4),
        "a single row": lambda rng: normed(rng, 4),
        "a large eps": lambda rng: normed(rng, 2, 3, eps=0.5),
    },
    gradient_suspects={
        "A share of this gradient comes through rstd, and none is meant to: say in "
        "setup_context that rstd is not differentiable, and leave its gradient unused.": (
            differentiable_rms_norm
        ),
    },
    methods=("setup_context", "vmap"),
    double_backward=False,
    checks=(no_gradient_through(1, "rstd"),),
)
