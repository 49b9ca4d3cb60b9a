"""Lesson 03, where many elements meet in one: log-sum-exp, max, a norm, a rank."""

import torch
from torch import Tensor
from torch.nn import functional

from autograd_course.grader.checks import (
    backward_is_a_formula,
    keeps_at_most,
    no_tensor_on_ctx,
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


def batch_norm(x: Tensor, eps: float) -> Tensor:
    """Return ``(x - μ) / √(v + eps)``, with mean and biased variance of each channel, axis 1."""
    return functional.batch_norm(x, None, None, training=True, eps=eps)


def soft_rank(x: Tensor, tau: float) -> Tensor:
    """Return ``½ + Σⱼ σ((xᵢ - xⱼ) / τ)`` along the last axis."""
    return 0.5 + torch.sigmoid((x[..., :, None] - x[..., None, :]) / tau).sum(-1)


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
        asked=("kink-convention",),
        checks=(backward_is_a_formula, no_tensor_on_ctx),
        bounds="equal maxima share the gradient equally",
    ),
    FunctionExercise(
        id="batch-norm",
        lesson="03_gradient_patterns",
        title="Batch normalization",
        points=3,
        reference=batch_norm,
        samplers={
            "6 examples, 3 channels": lambda rng: (normal(rng, 6, 3), 1e-5),
            "three axes": lambda rng: (normal(rng, 2, 3, 4), 1e-5),
            "four axes, one of length 1, a large eps": lambda rng: (normal(rng, 3, 2, 1, 4), 0.5),
            "one example with one channel": lambda rng: (2 + normal(rng, 1, 1, 5), 1e-3),
        },
        hints=(
            "Move one x by a little. The mean of its channel moves, and so does the variance: all "
            "the outputs of the channel move with them. How many paths lead from x to the loss?",
            "What comes through the numerator is g/√(v+eps). The path through the mean takes g's "
            "own mean away from it, the path through the variance takes away what points along y: "
            "y times the mean of g·y. All means are per channel, over every axis but 1.",
            "∂L/∂x = (g - mean(g) - y · mean(g · y)) / √(v + eps), the means over all axes but 1 "
            "with keepdim=True, v the biased variance. Save x and y and compute v again; None for "
            "eps.",
        ),
        read='lesson 03, "Normalization is a projection"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
            without(
                "native_batch_norm",
                "native_batch_norm_backward",
                "native_layer_norm",
                "native_layer_norm_backward",
                "native_group_norm",
                "native_group_norm_backward",
                "_native_batch_norm_legit",
                "cudnn_batch_norm",
                "_batch_norm_with_update",
                "_batch_norm_no_update",
                use="mean, var and the projection",
            ),
        ),
        bounds="no built-in normalization does the work",
    ),
    FunctionExercise(
        id="soft-rank",
        lesson="03_gradient_patterns",
        title="Soft rank",
        points=3,
        reference=soft_rank,
        samplers={
            "5 numbers, temperature 1": lambda rng: (normal(rng, 5), 1.0),
            "a 2×4 matrix, temperature 0.3": lambda rng: (normal(rng, 2, 4), 0.3),
            "three axes, temperature 2": lambda rng: (normal(rng, 2, 1, 3), 2.0),
            "one number to rank": lambda rng: (normal(rng, 3, 1), 0.5),
        },
        hints=(
            "x_k appears in rank k, as the number that is ranked. Where else? Move it up past its "
            "neighbor, and see whose rank changes.",
            "With S_ij = σ'((x_i - x_j)/τ)/τ, a symmetric matrix: rank i grows with x_i by the sum "
            "of row i, and falls with x_j by S_ij. So x_k collects a term from its own row, times "
            "g_k, and one from its column, of all the g_i.",
            "∂L/∂x_k = Σ_j S_kj · (g_k - g_j). Save x, rebuild s = σ of the differences and "
            "S = s(1 - s)/τ in backward, multiply by the matrix of differences of g and sum over "
            "the last axis; None for τ.",
        ),
        read='lesson 03, "Copies forward, sums backward"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
            keeps_at_most(
                lambda x, tau: x.numel() * x.element_size(), "x itself, no matrix of all pairs"
            ),
        ),
        bounds="no matrix of all pairs is kept for backward",
    ),
)
