"""Three levels from two signs

1. Which of the two signs jumps at t, and which at -t? Draw the two clips for t = 0.5. For which
   x does each clip have the slope 1, and for which x the slope 0?
2. Each clip has its own window: |x - t| ≤ 1 and |x + t| ≤ 1. The gradient of x adds the two
   windows. By the chain rule, x - t has the derivative -1 with respect to t, and x + t has +1.
3. With upper and lower as the two windows in the dtype of x, the gradient of x is
   g · (lower + upper) / 2, and that of the threshold is (g · (lower - upper)).sum() / 2.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograd_course.exercises.lesson_05_straight_through._sign import clipped, sign
from autograd_course.grader.checks import CONDUCT, gradient_at
from autograd_course.grader.exercise import FunctionExercise, Sampler
from autograd_course.grader.sampling import around
from autograd_course.grader.suspecting import returning


def ternary(x: Tensor, threshold: Tensor) -> Tensor:
    """Return +1 where ``x ≥ threshold``, -1 where ``x < -threshold``, and 0 elsewhere."""
    return (sign(x - threshold) + sign(x + threshold)) / 2


def two_clips(x: Tensor, threshold: Tensor) -> Tensor:
    """Return the surrogate, the mean of two clips, each of which replaces one sign."""
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


def windows(
    upper: Callable[[Tensor, Tensor], Tensor], lower: Callable[[Tensor, Tensor], Tensor]
) -> Callable[..., Any]:
    """Return a suspect whose backward uses different windows for the two signs."""

    def backward(x: Tensor, t: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        high, low = upper(x, t).to(x), lower(x, t).to(x)
        return g * (low + high) / 2, (g * (low - high)).sum() / 2

    return returning(ternary, backward)


def as_for_x(x: Tensor, t: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return gradients in which the threshold gets minus the sum of the gradient of x."""
    grad_x = g * (low(x, t).to(x) + high(x, t).to(x)) / 2
    return grad_x, -grad_x.sum()


def by_sign_of_x(x: Tensor, t: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return gradients in which each term of the threshold's gradient gets its sign from x."""
    grad_x = g * (low(x, t).to(x) + high(x, t).to(x)) / 2
    return grad_x, -(grad_x * x.sign()).sum()


def with_grad_x(of_x: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """Return a suspect whose gradient of x is grad_output times ``of_x(x, t)``."""

    def backward(x: Tensor, t: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        return g * of_x(x, t), (g * (low(x, t).to(x) - high(x, t).to(x))).sum() / 2

    return returning(ternary, backward)


def around_zero(x: Tensor, t: Tensor) -> Tensor:
    """Return one window around 0."""
    return x.abs() <= 1


def wide(x: Tensor, t: Tensor) -> Tensor:
    """Return one window around 0 that also covers both jumps."""
    return x.abs() <= 1 + t


def high(x: Tensor, t: Tensor) -> Tensor:
    """Return the window around the jump at t."""
    return (x - t).abs() <= 1


def low(x: Tensor, t: Tensor) -> Tensor:
    """Return the window around the jump at -t."""
    return (x + t).abs() <= 1


def everywhere(x: Tensor, t: Tensor) -> Tensor:
    """Return a window that contains every number."""
    return torch.ones_like(x)


def open_high(x: Tensor, t: Tensor) -> Tensor:
    """Return a window around t without a lower bound."""
    return x - t <= 1


def open_low(x: Tensor, t: Tensor) -> Tensor:
    """Return a window around -t without a lower bound."""
    return x + t <= 1


ONE_END = "A window has two ends, {0} - 1 and {0} + 1. This one has no lower end, so the absolute "
ONE_END += "value is missing."

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
    suspects={
        "Here the sign of 0 is 0, so the result is ±½ where x is t or -t. In this exercise, the "
        "sign of 0 is +1.": lambda x, t: (torch.sign(x - t) + torch.sign(x + t)) / 2,
        "Where x is equal to t, x - t is 0 and its sign is +1. So the result is +1 there, and the "
        "comparison includes t.": lambda x, t: (x > t).to(x) - (x < -t).to(x),
        "Where x is equal to -t, x + t is 0 and its sign is +1. So the result is 0 there, and the "
        "comparison excludes -t.": lambda x, t: (x >= t).to(x) - (x <= -t).to(x),
        "Here the sign of 0 is -1. In this exercise it is +1, for x = t and for x = -t.": (
            lambda x, t: (x > t).to(x) - (x <= -t).to(x)
        ),
        "This is the sum of the two signs, without the ½.": lambda x, t: 2 * ternary(x, t),
        "This is only the sign of x - t. The formula adds the sign of x + t, and halves.": (
            lambda x, t: sign(x - t)
        ),
    },
    gradient_suspects={
        "The gradient of x passes fully where at least one window contains x. Each clip adds half "
        "of it, so where only one window contains x, half of it passes.": with_grad_x(
            lambda x, t: low(x, t) | high(x, t)
        ),
        "The gradient of x passes only where both windows contain x. Each clip adds one half of "
        "it, so where only one window contains x, half of it passes.": with_grad_x(
            lambda x, t: low(x, t) & high(x, t)
        ),
        "The gradient of x passes everywhere. Outside its window, each clip is constant and has "
        "the slope 0.": with_grad_x(lambda x, t: torch.ones_like(x)),
        "The windows extend by t around each jump. A clip has the slope 1 where its argument is "
        "between -1 and 1, so they extend by 1.": windows(
            lambda x, t: (x - t).abs() <= t, lambda x, t: (x + t).abs() <= t
        ),
        "The windows have no upper end, so the absolute value is missing.": windows(
            lambda x, t: x - t >= -1, lambda x, t: x + t >= -1
        ),
        "This takes the values of the two clips. backward needs their slopes, which are 1 inside "
        "the window and 0 outside.": windows(
            lambda x, t: (x - t).clamp(-1, 1), lambda x, t: (x + t).clamp(-1, 1)
        ),
        "The gradient of x uses a window around 0, and the threshold gets no gradient. Each sign "
        "has its own clip, around its own jump.": windows(around_zero, around_zero),
        "The gradient of x uses one window from -1 - t to 1 + t, and the threshold gets none. Each "
        "clip has its own window: one around t, and one around -t.": windows(wide, wide),
        "The gradient of x passes everywhere, and the threshold gets none. Outside its window, "
        "each clip is constant and has the slope 0.": windows(everywhere, everywhere),
        ONE_END.format("t"): windows(open_high, low),
        ONE_END.format("-t"): windows(high, open_low),
        "The windows have two ends each. These have no lower end, so the absolute value is "
        "missing.": windows(open_high, open_low),
        "The two windows are exchanged, so the threshold gets the wrong sign.": windows(low, high),
        "The threshold gets minus the gradient of x, as if both clips contained x - t. The second "
        "one contains x + t, so its part has the other sign.": returning(ternary, as_for_x),
        "The sign of x decides about the gradient of the threshold here. The window decides: the "
        "clip of x - t contributes minus a half, and the clip of x + t contributes a half.": (
            returning(ternary, by_sign_of_x)
        ),
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
