"""Three levels from two signs

1. Which of the two signs jumps at t, and which at -t? Draw the two clips for t = 0.5. For which
   x does each clip have the slope 1, and for which x the slope 0?
2. Each clip has its own window: |x - t| ≤ 1 and |x + t| ≤ 1. The gradient of x adds the two
   windows. By the chain rule, x - t has the derivative -1 with respect to t, and x + t has +1.
3. With upper and lower as the two windows in the dtype of x, the gradient of x is
   g · (lower + upper) / 2, and that of the threshold is (g · (lower - upper)).sum() / 2.
"""

import torch
from torch import Tensor

from autograd_course.exercises.lesson_05_straight_through._sign import clipped, sign
from autograd_course.grader.checks import CONDUCT, gradient_at
from autograd_course.grader.exercise import FunctionExercise, Sampler
from autograd_course.grader.sampling import around


def ternary(x: Tensor, threshold: Tensor) -> Tensor:
    """Return +1 where ``x ≥ threshold``, -1 where ``x < -threshold``, and 0 elsewhere."""
    return (sign(x - threshold) + sign(x + threshold)) / 2


def two_clips(x: Tensor, threshold: Tensor) -> Tensor:
    """Return the surrogate: the mean of two clips. Each clip replaces one of the signs."""
    return (clipped(x - threshold) + clipped(x + threshold)) / 2


def one_clip(x: Tensor, threshold: Tensor) -> Tensor:
    """Return a single clip around 0, with the correct gradient of the threshold."""
    of_threshold = two_clips(x.detach(), threshold)
    return clipped(x) + of_threshold - of_threshold.detach()


def thresholds(t: float, *shape: int) -> Sampler:
    """Return a sampler of numbers on both sides of each jump and of each window's bounds."""
    kinks = tuple(sorted(side * edge for side in (-1, 1) for edge in (t, abs(1 - t), 1 + t)))

    def sampler(rng: torch.Generator) -> tuple[Tensor, Tensor]:
        return around(rng, kinks, *shape), torch.tensor(t, dtype=torch.float64)

    return sampler


def at_the_jumps(rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return numbers that include both thresholds and zero."""
    x = around(rng, (-1.25, -0.75, 0.75, 1.25), 2, 5)
    x[:, 1:4] = torch.tensor([-0.25, 0.0, 0.25], dtype=x.dtype)
    return x, torch.tensor(0.25, dtype=torch.float64)


EXERCISE = FunctionExercise(
    answer="TernarySTE",
    points=3,
    difficulty="medium",
    minutes=15,
    section="Declare the surrogate",
    constraints="each clip still passes the gradient at exactly -1 and +1",
    reference=ternary,
    surrogate=two_clips,
    samplers={
        "threshold 0.4: the windows overlap": thresholds(0.4, 3, 7),
        "threshold 2: the windows are apart": thresholds(2.0, 14),
        "three axes, one of length 1": thresholds(0.6, 2, 1, 7),
        "a single number (0-dim)": thresholds(0.3),
        "x equal to the thresholds and to 0": at_the_jumps,
    },
    gradient_suspects={
        "Each sign has its own clip, around its own jump. Neither clip has a window around "
        "0.": one_clip,
    },
    checks=(
        *CONDUCT,
        gradient_at(
            two_clips,
            torch.tensor([-1.5, -0.5, 0.5, 1.5], dtype=torch.float64),
            torch.tensor(0.5, dtype=torch.float64),
        ),
    ),
)
