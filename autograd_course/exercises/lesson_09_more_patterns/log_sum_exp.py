"""Log-sum-exp

1. exp overflows above 709 in float64. Which number can you subtract from every entry of a slice
   and add back outside the logarithm? And what is -inf minus -inf?
2. Subtract the maximum of the slice, or 0 where the maximum is -inf. The derivative with respect to
   x_j is exp(x_j) / Σ exp(x), which is exp(x_j - y). This is the softmax without a division. First
   add the missing dim to grad_output.
3. In forward, compute m = x.amax(dim, keepdim=True) and replace -inf in m by 0. Then y is m plus
   the logarithm of the sum of exp(x - m). Save x and y. In backward, call unsqueeze(dim) on y and
   grad_output, unless keepdim is True. Return grad_output · exp(x - y'), where y' is y with 0 in
   place of -inf, and None for dim and keepdim.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, without
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def log_sum_exp(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return ``log Σ exp(x)``. If a slice is all -inf, the result is -inf and its gradient 0.

    ``torch.logsumexp`` returns the same value, but its gradient is nan.
    """
    empty = (x == -torch.inf).all(dim, keepdim=True)
    y = torch.logsumexp(x.masked_fill(empty, 0.0), dim, keepdim)
    return y.masked_fill(empty if keepdim else empty.squeeze(dim), -torch.inf)


def masked(rng: torch.Generator, *shape: int) -> Tensor:
    """Return random numbers, with ``-inf`` at the start of each row and in the whole last row.

    The last dim must be longer than 1.
    """
    x = normal(rng, *shape)
    x[..., 0] = -torch.inf
    x[..., -1, :] = -torch.inf
    return x


EXERCISE = FunctionExercise(
    answer="LogSumExp",
    points=3,
    difficulty="hard",
    minutes=25,
    section="Log-sum-exp and the fully masked row",
    constraints="no built-in computes the log-sum-exp",
    reference=log_sum_exp,
    samplers={
        "a 3×5 matrix along the last dim": lambda rng: (normal(rng, 3, 5), -1),
        "along dim 0, with keepdim": lambda rng: (normal(rng, 3, 4), 0, True),
        "three dims, along the middle one": lambda rng: (normal(rng, 2, 3, 1), -2, False),
        "numbers in the thousands": lambda rng: (1e3 * normal(rng, 2, 4), 1),
        "-inf among the entries": lambda rng: (masked(rng, 4, 3)[:-1], -1),
        "a row of -inf only": lambda rng: (masked(rng, 3, 4), -1, True),
    },
    checks=(
        *CONDUCT,
        without(
            "logsumexp",
            "_log_softmax",
            "logcumsumexp",
            "_logcumsumexp",
            "logaddexp",
            use="amax, exp, sum and log",
        ),
    ),
)
