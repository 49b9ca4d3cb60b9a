"""Split an old Function

1. Which lines of the old forward use ctx? Move them to setup_context. Which of the tensors in these
   lines does setup_context not receive?
2. rstd is neither an input nor an output. Make it a second output, and mark it as
   non-differentiable. backward then receives a second gradient, which it ignores. One more line in
   the class lets PyTorch generate the vmap rule.
3. forward(x, weight, eps) returns (x * rstd * weight, rstd). setup_context unpacks x, weight, eps =
   inputs and _, rstd = output, calls ctx.mark_non_differentiable(rstd), and saves x, weight and
   rstd. backward(ctx, grad_output, _) uses the old formulas.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import no_gradient_through
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the normalized ``x`` times ``weight``, and ``rstd``, which has no gradient."""
    rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    return x * rstd * weight, rstd.detach()


def normed(rng: torch.Generator, *shape: int, eps: float = 1e-5) -> tuple[Tensor, Tensor, float]:
    """Return input rows, a weight for each column, and ``eps``."""
    return normal(rng, *shape), 1 + 0.3 * normal(rng, shape[-1]), eps


def with_a_dead_column(rng: torch.Generator) -> tuple[Tensor, Tensor, float]:
    """Return inputs with one weight of 0, so that the output does not determine ``x`` there."""
    x, weight, eps = normed(rng, 3, 4)
    weight[1] = 0
    return x, weight, eps


def differentiable_rms_norm(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the same two tensors, but keep the gradient of ``rstd``."""
    rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    return x * rstd * weight, rstd


EXERCISE = FunctionExercise(
    answer="RMSNorm",
    points=2,
    difficulty="medium",
    minutes=20,
    section="Two forms of one Function",
    constraints="torch.func accepts it",
    reference=rms_norm,
    samplers={
        "a batch of 3 rows": lambda rng: normed(rng, 3, 5),
        "three dims, one of length 1": lambda rng: normed(rng, 2, 1, 4),
        "a single row": lambda rng: normed(rng, 4),
        "a weight of 0 among the weights": with_a_dead_column,
        "a large eps": lambda rng: normed(rng, 2, 3, eps=0.5),
    },
    gradient_suspects={
        "Part of this gradient flows through rstd, but none should. Mark rstd as "
        "non-differentiable in setup_context, and ignore its gradient.": (differentiable_rms_norm),
    },
    methods=("setup_context", "vmap"),
    accepted=("wrong-non-differentiable",),  # the exercise asks for no gradient through rstd
    double_backward=False,
    checks=(no_gradient_through(1, "rstd"),),
)
