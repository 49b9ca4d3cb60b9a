"""Soft rank

1. x_k appears in rank k, as the number being ranked. Where else? Move it up past its neighbor,
   and see whose rank changes.
2. Let S_ij = σ'((x_i - x_j)/τ)/τ. If x_k grows, rank k grows by the sum of S_kj over all j, and
   every rank i falls by S_ik. (The terms for j = k and i = k cancel.) Multiply each of these by the
   gradient of its rank, g_k or g_i, and add them.
3. ∂L/∂x_k = Σ_j S_kj · (g_k - g_j). Save x. In backward, recompute s = σ of the differences and S =
   s(1 - s)/τ. Multiply S by the matrix of differences of g and sum over the last dim. Return None
   for τ.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, keeps_at_most
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def soft_rank(x: Tensor, tau: float) -> Tensor:
    """Return ``½ + Σⱼ σ((xᵢ - xⱼ) / τ)`` along the last dim."""
    return 0.5 + torch.sigmoid((x[..., :, None] - x[..., None, :]) / tau).sum(-1)


EXERCISE = FunctionExercise(
    answer="SoftRank",
    points=3,
    difficulty="medium",
    minutes=15,
    section="Copies forward, sums backward",
    section_is_on_backward=True,
    constraints="no matrix of all pairs is kept for backward",
    reference=soft_rank,
    samplers={
        "5 numbers, temperature 1": lambda rng: (normal(rng, 5), 1.0),
        "a 2×4 matrix, temperature 0.3": lambda rng: (normal(rng, 2, 4), 0.3),
        "three dims, temperature 2": lambda rng: (normal(rng, 2, 1, 3), 2.0),
        "one number to rank": lambda rng: (normal(rng, 3, 1), 0.5),
    },
    suspects={
        "The ½ in front of the sum is missing.": lambda x, tau: soft_rank(x, tau) - 0.5,
        "The sum has 1 in front of it. In the formula it is ½, because the term with j = i adds "
        "another ½.": lambda x, tau: soft_rank(x, tau) + 0.5,
        "The difference has the wrong sign, or the sum is over the wrong dim. The largest number "
        "gets the rank 1, and it should get the last rank.": lambda x, tau: soft_rank(-x, tau),
        "The difference is multiplied by τ. The formula divides by it.": lambda x, tau: soft_rank(
            x, 1 / tau
        ),
        "The difference is not divided by τ.": lambda x, tau: soft_rank(x, 1.0),
    },
    checks=(
        *CONDUCT,
        keeps_at_most(
            lambda x, tau: x.numel() * x.element_size(), "x itself, no matrix of all pairs"
        ),
    ),
)
