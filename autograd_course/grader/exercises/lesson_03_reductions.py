"""Lesson 03, where many elements become one: log-sum-exp and maximum."""

import torch
from torch import Tensor

from autograd_course.grader.checks import (
    backward_is_a_formula,
    no_tensor_on_ctx,
    ties_as,
    without,
)
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal

SPREAD = 0.3  # far wider than any step of a numerical derivative, so that ties stay ties


def log_sum_exp(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return ``log Σ exp(x)``; a slice of -inf alone gives -inf, and its gradient is zero.

    ``torch.logsumexp`` gives that value too, but nan for the gradient.
    """
    empty = (x == -torch.inf).all(dim, keepdim=True)
    y = torch.logsumexp(x.masked_fill(empty, 0.0), dim, keepdim)
    return y.masked_fill(empty if keepdim else empty.squeeze(dim), -torch.inf)


def amax(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """Return the maximum along an axis; equal maxima share the gradient equally."""
    return torch.amax(x, dim, keepdim)


def masked(rng: torch.Generator, *shape: int) -> Tensor:
    """Return normal numbers with ``-inf`` in the first place of each row, and the whole last row.

    The last axis must be longer than 1.
    """
    x = normal(rng, *shape)
    x[..., 0] = -torch.inf
    x[..., -1, :] = -torch.inf
    return x


def tied(rng: torch.Generator, *shape: int) -> Tensor:
    """Return multiples of ``SPREAD`` from 0 to 3 times it: slices of four or more have ties."""
    levels = torch.randint(4, shape, generator=rng, device="cpu")
    return SPREAD * levels.to(torch.float64)


REDUCTIONS: tuple[FunctionExercise, ...] = (
    FunctionExercise(
        id="log-sum-exp",
        lesson="03_gradient_patterns",
        title="Log-sum-exp",
        points=3,
        reference=log_sum_exp,
        samplers={
            "a 3×5 matrix along the last axis": lambda rng: (normal(rng, 3, 5), -1),
            "along axis 0, kept": lambda rng: (normal(rng, 3, 4), 0, True),
            "three axes, along the middle one": lambda rng: (normal(rng, 2, 3, 1), -2, False),
            "numbers in the thousands": lambda rng: (1e3 * normal(rng, 2, 4), 1),
            "-inf among the entries": lambda rng: (masked(rng, 4, 3)[:-1], -1),
            "a row that is all -inf": lambda rng: (masked(rng, 3, 4), -1, True),
        },
        hints=(
            "exp overflows above 709. Which number may you subtract from every entry of a slice "
            "and add again outside the logarithm? And what becomes of -inf minus -inf?",
            "Shift by the slice's maximum, but by 0 where that is -inf. The derivative with "
            "respect to x_j is exp(x_j) / Σ exp(x), which is exp(x_j - y): the softmax, without "
            "any division. grad_output has to get the lost axis back first.",
            "In forward: m = x.amax(dim, keepdim=True), 0 where it is -inf; y = m + log of the sum "
            "of exp(x - m). Save x and y. In backward restore the axis of y and g by "
            "unsqueeze(dim) unless it was kept, and return g · exp(x - y'), where y' is y with 0 "
            "in place of -inf; None for dim and for keepdim.",
        ),
        read='lesson 03, "Log-sum-exp and the empty row"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
            without(
                "logsumexp",
                "_log_softmax",
                "logcumsumexp",
                "_logcumsumexp",
                "logaddexp",
                use="amax, exp, sum and log",
            ),
        ),
        bounds="no built-in does the log-sum-exp",
    ),
    FunctionExercise(
        id="max-with-ties",
        lesson="03_gradient_patterns",
        title="Maximum with ties",
        points=2,
        reference=amax,
        samplers={
            "a 3×5 matrix along the last axis": lambda rng: (normal(rng, 3, 5), -1),
            "ties, along the last axis": lambda rng: (tied(rng, 4, 6), -1),
            "ties, along axis 0, kept": lambda rng: (tied(rng, 6, 3), 0, True),
            "three axes, along one of length 1": lambda rng: (normal(rng, 2, 1, 3), 1),
            "a slice of equal numbers": lambda rng: (torch.full_like(normal(rng, 4), 0.7), 0),
        },
        hints=(
            "Which elements of a slice does the maximum depend on? All others get 0. And how many "
            "are there, when the largest number stands in several places?",
            "Compare x with the maximum, its axis kept: a mask of all the winners. Where c of them "
            "tie, each gets 1/c of the slice's gradient. Bring grad_output to that shape too.",
            "Save x and y. In backward: y and g get their axis back by unsqueeze(dim) unless it "
            "was kept; winners = x == y; return g · winners / winners.sum(dim, keepdim=True), and "
            "None twice.",
        ),
        read='lesson 03, "Max, and what ties do"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
            ties_as(amax, torch.tensor([3.0, 1.0, 3.0, 3.0, 2.0], dtype=torch.float64), 0),
            ties_as(
                amax,
                torch.tensor([3.0, 2.99999999, 1.0], dtype=torch.float64),
                0,
                beside="Elements that come close to each other are no tie.",
            ),
        ),
        bounds="equal maxima share the gradient equally",
    ),
)
