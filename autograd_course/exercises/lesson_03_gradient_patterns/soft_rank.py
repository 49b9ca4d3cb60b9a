"""Soft rank

1. x_k appears in rank k, as the number being ranked. Where else does it appear? Move it up past its
   neighbor, and see whose rank changes.
2. Let S_ij = σ'((x_i - x_j)/τ)/τ. If x_k grows, rank k grows by the sum of S_kj over all j, and
   every rank i falls by S_ik. (The terms for j = k and i = k cancel.) Multiply each of these by the
   gradient of its rank, g_k or g_i, and add them.
3. ∂L/∂x_k = Σ_j S_kj · (g_k - g_j). Save x. In backward, recompute s = σ of the differences and S =
   s(1 - s)/τ. Multiply S by the matrix of differences of g and sum over the last dim. Return None
   for τ.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, MANY, keeps_at_most, on
from autograd_course.grader.checks.simpler_inputs import raises_except_for
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import returning


def soft_rank(x: Tensor, tau: float) -> Tensor:
    """Return ``½ + Σⱼ σ((xᵢ - xⱼ) / τ)`` along the last dim."""
    return 0.5 + torch.sigmoid((x[..., :, None] - x[..., None, :]) / tau).sum(-1)


def with_all_gradients(x: Tensor, tau: float, g: Tensor) -> Tensor:
    """Return a gradient whose second term uses the sum of all upstream gradients."""
    s = torch.sigmoid((x[..., :, None] - x[..., None, :]) / tau)
    slope = s * (1 - s) / tau
    return g * slope.sum(-1) - g.sum(-1, keepdim=True) * slope.sum(-2)


needs_a_vector = raises_except_for(
    lambda x, tau: (x.reshape(-1), tau) if x.ndim > 1 else None,
    "The dims are counted from the first.",
    "`backward` works for a vector, but not for more dims. The ranks are along the last dim, so "
    "count every dim from the last one: -1 and -2. For a matrix product, each row of grad_output "
    "must be a column of its own: unsqueeze(-1).",
)


only_x = keeps_at_most(
    lambda x, tau: x.numel() * x.element_size(), "x itself, no matrix of all pairs"
)

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
        "The comparisons are hard here: each one counts 0 or 1. The formula takes the sigmoid of "
        "the difference.": lambda x, tau: 0.5 + (x[..., :, None] > x[..., None, :]).to(x).sum(-1),
    },
    gradient_suspects={
        "The second part multiplies all slopes by the sum of the gradients. Each slope S_ik "
        "belongs to the gradient of rank i. Multiply them first, and then sum.": returning(
            soft_rank, with_all_gradients
        ),
    },
    causes=(needs_a_vector,),
    checks=(
        *CONDUCT,
        only_x,
        on(lambda rng: (normal(rng, *MANY), 1.0), only_x),
    ),
)
