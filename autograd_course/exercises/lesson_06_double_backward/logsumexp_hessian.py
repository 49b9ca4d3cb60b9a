"""Log-sum-exp with its Hessian

1. The gradient is the softmax. Computed in forward it is an intermediate, and the Hessian is zero.
   What can the softmax be computed from in backward?
2. Either from the saved input alone, or from input and output together: the output is the logarithm
   of the softmax's denominator. But only the very tensor that forward returns has a graph; one with
   the axis kept, or put back in forward, has none.
3. Save x and y = torch.logsumexp(x, -1). The softmax is exp(x - y.unsqueeze(-1)); multiply it by
   grad_output.unsqueeze(-1), since grad_output has no last axis.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def logsumexp(x: Tensor) -> Tensor:
    """Return ``log Σ exp x`` over the last axis."""
    return torch.logsumexp(x, -1)


EXERCISE = FunctionExercise(
    answer="LogSumExp",
    points=3,
    difficulty="medium",
    minutes=10,
    section="The Hessian",
    reference=logsumexp,
    samplers={
        "a 3×5 matrix": lambda rng: (normal(rng, 3, 5),),
        "a vector": lambda rng: (normal(rng, 5),),
        "three axes, one of length 1": lambda rng: (normal(rng, 2, 1, 3),),
        "a last axis of length 1": lambda rng: (normal(rng, 4, 1),),
    },
    double_backward=True,
    checks=CONDUCT,
)
