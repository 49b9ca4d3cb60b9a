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

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, without
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import mistaken


def log_sum_exp(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return ``log Σ exp(x)``. If a slice is all -inf, the result is -inf and its gradient is 0.

    ``torch.logsumexp`` returns the same value, but its gradient is nan.
    """
    empty = (x == -torch.inf).all(dim, keepdim=True)
    y = torch.logsumexp(x.masked_fill(empty, 0.0), dim, keepdim)
    return y.masked_fill(empty if keepdim else empty.squeeze(dim), -torch.inf)


def masked(rng: torch.Generator, *shape: int) -> Tensor:
    """Return random numbers with ``-inf`` at the start of each row and throughout the last row.

    The last dim must be longer than 1.
    """
    x = normal(rng, *shape)
    x[..., 0] = -torch.inf
    x[..., -1, :] = -torch.inf
    return x


def far_apart(rng: torch.Generator) -> tuple[Tensor, int]:
    """Return three rows of numbers in the thousands, with maxima that also differ by thousands."""
    return 1e3 * normal(rng, 3, 4) + torch.tensor([[-9e3], [0], [9e3]], dtype=torch.float64), 1


def shifted(
    shift: Callable[[Tensor, int], Tensor], *, add: bool = True, mean: bool = False
) -> Callable[..., Tensor]:
    """Return a log-sum-exp that subtracts ``shift(x, dim)``, which keeps the dim.

    Without ``add``, it does not add the shift back. With ``mean``, it averages the exponentials
    instead of summing them.
    """

    def mistake(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
        by = shift(x, dim)
        exponentials = torch.exp(x - by)
        total = exponentials.mean(dim, True) if mean else exponentials.sum(dim, True)
        y = torch.log(total) + (by if add else 0)
        return y if keepdim else y.squeeze(dim)

    return mistake


def largest(x: Tensor, dim: int) -> Tensor:
    """Return the maximum of each slice, or 0 if all of its entries are ``-inf``."""
    high = x.amax(dim, keepdim=True)
    return high.masked_fill(high == -torch.inf, 0)


def sloped(slope: Callable[[Tensor, Tensor, int], Tensor]) -> Callable[..., Any]:
    """Return a log-sum-exp whose derivative is ``slope(x, y, dim)``, where y keeps the dim."""

    def backward(inputs: Any, g: Tensor) -> tuple[Tensor]:
        x, dim, *rest = inputs
        y = log_sum_exp(x, dim, True)
        g = g if rest and rest[0] else g.unsqueeze(dim)
        return (g * slope(x, y.masked_fill(y == -torch.inf, 0), dim),)

    return mistaken(log_sum_exp, backward)


def unsqueezed(*, y_too: bool) -> Callable[..., Any]:
    """Return a log-sum-exp whose backward adds the dim to ``grad_output``, even with keepdim.

    With ``y_too`` and keepdim, it also adds the dim to y a second time.
    """

    def backward(inputs: Any, g: Tensor) -> tuple[Tensor]:
        x, dim, *rest = inputs
        y = log_sum_exp(x, dim, True)
        again = bool(rest and rest[0]) and y_too
        y = y.masked_fill(y == -torch.inf, 0)
        return (g.unsqueeze(dim) * torch.exp(x - (y.unsqueeze(dim) if again else y)),)

    return mistaken(log_sum_exp, backward)


LSE_SUSPECTS: Mapping[str, Callable[..., Tensor]] = {
    "The maximum that you subtract is missing in the result. Add it outside of the logarithm.": (
        shifted(largest, add=False)
    ),
    "This is the logarithm of the mean. The formula has the sum of the exponentials.": (
        shifted(largest, mean=True)
    ),
    "This is the largest entry of each slice. The formula has the logarithm of a sum.": (
        lambda x, dim, keepdim=False: x.amax(dim, keepdim)
    ),
    "exp of a large number overflows. Which number can you subtract from every entry of a slice, "
    "and add back outside of the logarithm?": shifted(
        lambda x, dim: torch.zeros_like(x.amax(dim, keepdim=True))
    ),
    "In a slice of -inf only, you subtract -inf from -inf, which is nan. Subtract 0 there.": (
        shifted(lambda x, dim: x.amax(dim, keepdim=True))
    ),
    "You subtract the largest entry of the whole tensor. In a slice far below it, all exponentials "
    "are 0. Subtract the largest entry of each slice.": shifted(
        lambda x, dim: largest(x.flatten(), 0).reshape([1] * x.dim())
    ),
    "You subtract 0 from a slice whose largest entry is negative, so all of its exponentials can "
    "be 0. Replace only a maximum of -inf.": shifted(
        lambda x, dim: x.amax(dim, keepdim=True).clamp(min=0)
    ),
    "The maximum keeps the dim, but the sum does not. The addition of shapes such as (3, 1) and "
    "(3,) gives (3, 3). Both need the same shape.": (
        lambda x, dim, keepdim=False: (
            largest(x, dim) + (x - largest(x, dim)).exp().sum(dim, keepdim).log()
        )
    ),
    "keepdim has no effect. With keepdim=True, the output keeps the dim with size 1.": (
        lambda x, dim, keepdim=False: log_sum_exp(x, dim, False)
    ),
    "The output always keeps the dim. Without keepdim=True, it must be dropped.": (
        lambda x, dim, keepdim=False: log_sum_exp(x, dim, True)
    ),
    "squeeze() without an argument also drops other dims of size 1. Drop only dim.": (
        lambda x, dim, keepdim=False: (
            log_sum_exp(x, dim, True) if keepdim else log_sum_exp(x, dim, False).squeeze()
        )
    ),
    "The sum runs over the last dim. It must run over the dim that the caller passes.": (
        lambda x, dim, keepdim=False: log_sum_exp(x, -1, keepdim)
    ),
    "The sum runs over dim 0. It must run over the dim that the caller passes.": (
        lambda x, dim, keepdim=False: log_sum_exp(x, 0, keepdim)
    ),
    "A slice of -inf only must give -inf. You return a finite number there.": (
        lambda x, dim, keepdim=False: log_sum_exp(x, dim, keepdim).nan_to_num(neginf=0.0)
    ),
    "A slice of -inf only must give -inf. You return a large finite number there. Did nan_to_num "
    "replace it?": lambda x, dim, keepdim=False: log_sum_exp(x, dim, keepdim).nan_to_num(),
}
LSE_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "With keepdim=True, grad_output already has the dim, and your backward adds it again. Call "
    "unsqueeze only without keepdim.": unsqueezed(y_too=False),
    "With keepdim=True, y and grad_output already have the dim, and your backward adds it again. "
    "Call unsqueeze only without keepdim.": unsqueezed(y_too=True),
    "Your derivative is exp(x). It must be divided by the sum of the exponentials, so it is "
    "exp(x - y).": sloped(lambda x, y, dim: x.exp()),
    "The softmax is divided by a sum twice: exp(x - y) is already exp(x) / Σ exp(x).": sloped(
        lambda x, y, dim: (x - y).exp() / (x - y).exp().sum()
    ),
    "Your derivative is 1 for each entry. It must be the softmax, exp(x - y).": sloped(
        lambda x, y, dim: torch.ones_like(x)
    ),
    "The softmax in backward runs over the last dim. It must run over the dim that the caller "
    "passed.": sloped(lambda x, y, dim: x.softmax(-1)),
    "The softmax in backward runs over dim 0. It must run over the dim that the caller passed.": (
        sloped(lambda x, y, dim: x.softmax(0))
    ),
    "The softmax in backward runs over the whole tensor. It must run over each slice.": sloped(
        lambda x, y, dim: x.flatten().softmax(0).reshape(x.shape)
    ),
    "The whole gradient goes to the largest entry. Each entry gets its share, exp(x - y).": sloped(
        lambda x, y, dim: (x == x.amax(dim, keepdim=True)).to(x.dtype)
    ),
}

EXERCISE = FunctionExercise(
    answer="LogSumExp",
    points=3,
    difficulty="hard",
    minutes=25,
    section="Log-sum-exp and the fully masked row",
    constraints="no built-in computes the log-sum-exp",
    reference=log_sum_exp,
    samplers={
        # The matrix with dim=-1 comes first, because it reveals a wrong shape of grad_output.
        "keepdim=False, so grad_output lacks the last dim": lambda rng: (normal(rng, 3, 5), -1),
        "keepdim=True, so grad_output has the last dim": lambda rng: (normal(rng, 3, 4), 1, True),
        "along dim 0, with keepdim": lambda rng: (normal(rng, 3, 4), 0, True),
        "three dims, along the middle one": lambda rng: (normal(rng, 2, 3, 1), -2, False),
        "numbers in the thousands": far_apart,
        "numbers far below 0": lambda rng: (normal(rng, 2, 3) - 2e3, 1),
        "-inf among the entries": lambda rng: (masked(rng, 4, 3)[:-1], -1),
        "a row of -inf only": lambda rng: (masked(rng, 3, 4), -1, True),
    },
    suspects=LSE_SUSPECTS,
    gradient_suspects=LSE_GRADIENTS,
    checks=(
        *CONDUCT,
        without(
            "logsumexp",
            "_log_softmax",
            "logcumsumexp",
            "_logcumsumexp",
            "logaddexp",
            "logaddexp2",
            use="amax, exp, sum and log",
        ),
    ),
)
