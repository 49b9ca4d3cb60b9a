"""Lesson 03, where every output depends on every element: a norm, a rank."""

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


def batch_norm(x: Tensor, eps: float) -> Tensor:
    """Return ``(x - μ) / √(v + eps)``, with mean and biased variance of each channel, axis 1."""
    return functional.batch_norm(x, None, None, training=True, eps=eps)


def soft_rank(x: Tensor, tau: float) -> Tensor:
    """Return ``½ + Σⱼ σ((xᵢ - xⱼ) / τ)`` along the last axis."""
    return 0.5 + torch.sigmoid((x[..., :, None] - x[..., None, :]) / tau).sum(-1)


COUPLINGS: tuple[FunctionExercise, ...] = (
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
