"""Fake quantization with a learned step

1. Write v = x/s. Treat three cases separately: v below low, v from low to high, v above high.
   In two of them y no longer depends on x. Does it still depend on s?
2. Outside the bounds, y is s·low or s·high, so ∂y/∂s is that bound. Inside, y = s·round(x/s) is a
   product of two factors, and both depend on s. Use the product rule, with 1 as the derivative of
   the rounding: it gives round(v) minus something. All elements share one s.
3. With inside = (v >= low) & (v <= high), the gradient of x is g · inside. The
   gradient of s is a sum over all elements: g · (round(v) - v) inside, and g times the bound
   outside. torch.where(inside, v.round() - v, v.clamp(low, high)) gives both cases at once.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, gradient_at
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.suspecting import returning


def fake_quantize(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
    """Return ``step · round(clamp(x / step, low, high))``, where the bounds are integers."""
    return step * torch.round(x / step).clamp(low, high)


def straight_through(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
    """Return the surrogate, in which the derivative of the rounding is 1.

    Inside and outside the bounds, the gradient of ``step`` comes from separate paths. So
    ``diagnose`` can report which path is missing from an answer.
    """
    v = x / step
    inside = (v >= low) & (v <= high)
    rounded = v + (v.round() - v).detach()
    return torch.where(inside, step * rounded, step * v.detach().clamp(low, high))


def on_levels(
    rng: torch.Generator, shape: tuple[int, ...], step: float, low: int, high: int
) -> tuple[Tensor, Tensor, int, int]:
    """Return numbers inside and outside the bounds, but no number close to a bound or a tie.

    Some numbers outside the bounds round to a bound. For these numbers, a mask computed from the
    rounded level differs from a mask computed from ``x / step``.
    """
    count = torch.Size(shape).numel()
    level = torch.randint(low, high + 1, (count,), generator=rng, device="cpu")
    level[::3], level[1::3] = low - 2, high + 2
    off = 0.1 + 0.3 * torch.rand(count, generator=rng, dtype=torch.float64, device="cpu")
    off[::2] *= -1
    for first, nearest, side in ((2, low, -1), (5, high, 1)):
        level[first::12], off[first::12] = nearest, side * off[first::12].abs()
    x = step * (level + off).reshape(shape)
    return x, torch.tensor(step, dtype=torch.float64), low, high


def clamped_by_level(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
    """Return the correct values, but compare the rounded level, not ``x / step``, to the bounds."""
    v = x / step
    rounded = v + (v.round() - v).detach()
    level = rounded.detach()
    inside = (level >= low) & (level <= high)
    return torch.where(inside, step * rounded, step * level.clamp(low, high))


def clamped_by_level_for_x(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
    """Return the correct values, with the incorrect mask only in the gradient of ``x``."""
    right = straight_through(x.detach(), step, low, high)
    of_x = clamped_by_level(x, step.detach(), low, high)
    return right + of_x - of_x.detach()


def with_slope(slope: Callable[..., Tensor], mask: Callable[..., Tensor] | None = None) -> Any:
    """Return a suspect with a different gradient for the step or a different mask.

    ``slope`` takes ``v = x / step``, the mask and the bounds. ``mask`` takes the arguments of
    forward.
    """

    def backward(x: Tensor, step: Tensor, low: int, high: int, g: Tensor) -> tuple[Tensor, Tensor]:
        v = x / step
        inside = mask(x, step, low, high) if mask else (v >= low) & (v <= high)
        return g * inside, (g * slope(v, inside, low, high)).sum()

    return returning(fake_quantize, backward)


def right_slope(v: Tensor, inside: Tensor, low: int, high: int) -> Tensor:
    """Return the derivative of each element of the output with respect to the step."""
    return torch.where(inside, v.round() - v, v.clamp(low, high))


def summed_apart(x: Tensor, step: Tensor, low: int, high: int, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return gradients in which the gradient of the step is a product of two sums."""
    v = x / step
    inside = (v >= low) & (v <= high)
    return g * inside, g.sum() * right_slope(v, inside, low, high).sum()


def compared_as_x(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
    """Return a mask that compares x, not x / step, with the bounds."""
    return (x >= low) & (x <= high)


BY_LEVEL = (
    "An x just outside the bounds rounds to a level that is a bound. The clamp comes before the "
    "rounding: "
)

EXERCISE = FunctionExercise(
    answer="FakeQuantize",
    points=4,
    difficulty="hard",
    minutes=20,
    section="Quantize with a learned step",
    constraints="the gradient of x still passes at exactly the bounds",
    reference=fake_quantize,
    surrogate=straight_through,
    samplers={
        "three signed bits (-4 … 3)": lambda rng: on_levels(rng, (3, 5), 0.05, -4, 3),
        "two unsigned bits (0 … 3)": lambda rng: on_levels(rng, (7,), 1.5, 0, 3),
        "three axes, one of length 1": lambda rng: on_levels(rng, (2, 1, 6), 0.1, -8, 7),
        "a single number (0-dim)": lambda rng: on_levels(rng, (), 0.7, -2, 1),
    },
    suspects={
        "The level is not multiplied by the step.": lambda x, step, low, high: torch.round(
            x / step
        ).clamp(low, high),
        "The levels are cut off or rounded down. The formula rounds to the nearest level.": (
            lambda x, step, low, high: step * torch.floor(x / step).clamp(low, high)
        ),
        "No level is clamped here, although some are outside the bounds. The bounds are levels, so "
        "clamp x / step, not x and not y.": lambda x, step, low, high: step * torch.round(x / step),
        "The levels are cut off, so they go towards 0. The formula takes the nearest level.": (
            lambda x, step, low, high: step * torch.trunc(x / step).clamp(low, high)
        ),
        "Only the upper bound is clamped. Levels below low become low.": (
            lambda x, step, low, high: step * torch.round(x / step).clamp(max=high)
        ),
        "Only the lower bound is clamped. Levels above high become high.": (
            lambda x, step, low, high: step * torch.round(x / step).clamp(min=low)
        ),
        "The levels are clamped to -high … high. The lower bound is low.": (
            lambda x, step, low, high: step * torch.round(x / step).clamp(-high, high)
        ),
        "The levels are not rounded.": lambda x, step, low, high: (
            step * (x / step).clamp(low, high)
        ),
        "x is multiplied by the step before the rounding. The formula divides by it.": (
            lambda x, step, low, high: step * torch.round(x * step).clamp(low, high)
        ),
    },
    gradient_suspects={
        "For the step, grad_output and the derivative are summed separately. Multiply them element "
        "by element first, and then sum the products.": returning(fake_quantize, summed_apart),
        "The level is rounded down in the gradient of the step. `forward` rounds to the nearest "
        "level.": with_slope(
            lambda v, inside, low, high: torch.where(inside, v.floor() - v, v.clamp(low, high))
        ),
        "The mask compares |x / step| with high. The lower bound is low, which need not be "
        "-high.": with_slope(right_slope, lambda x, step, low, high: (x / step).abs() <= high),
        "The mask compares x with the bounds. They are levels, so compare x / step with them.": (
            with_slope(right_slope, compared_as_x)
        ),
        "Inside the bounds, the gradient of the step lacks one of its two terms, the level: y is "
        "the step times the level, and both depend on the step.": with_slope(
            lambda v, inside, low, high: torch.where(inside, -v, v.clamp(low, high))
        ),
        "Inside the bounds, the gradient of the step lacks the term -x / step: the level depends "
        "on the step, too, through x / step.": with_slope(
            lambda v, inside, low, high: torch.where(inside, v.round(), v.clamp(low, high))
        ),
        "Inside the bounds, the gradient of the step is 0, as if the rounding changed nothing. y "
        "is the step times the level, so this gradient is the level minus x / step.": with_slope(
            lambda v, inside, low, high: torch.where(inside, 0 * v, v.clamp(low, high))
        ),
        "The term -x / step of the gradient of the step is subtracted outside the bounds, too. "
        "There the level is constant, and only the bound remains.": with_slope(
            lambda v, inside, low, high: v.round().clamp(low, high) - v
        ),
        "The gradient of the step is 0 outside the bounds. There y is the step times a bound, so "
        "it still depends on the step.": with_slope(
            lambda v, inside, low, high: torch.where(inside, v.round() - v, 0 * v)
        ),
        "Outside the bounds, the gradient of the step always takes high. Below low, y is the step "
        "times low.": with_slope(
            lambda v, inside, low, high: torch.where(inside, v.round() - v, 0 * v + high)
        ),
        "Inside the bounds, the gradient of the step has the wrong sign: it is the level minus "
        "x / step.": with_slope(
            lambda v, inside, low, high: torch.where(inside, v - v.round(), v.clamp(low, high))
        ),
        "Outside the bounds, the gradient of the step is x / step here. There y is the step times "
        "a bound, which does not depend on x.": with_slope(
            lambda v, inside, low, high: torch.where(inside, v.round() - v, v)
        ),
        BY_LEVEL + "compare x / step with the bounds, not its level.": clamped_by_level,
        BY_LEVEL + "for the gradient of x, also compare x / step with the bounds, not its "
        "level.": clamped_by_level_for_x,
    },
    checks=(
        *CONDUCT,
        gradient_at(
            straight_through,
            torch.tensor([-1.0, 0.25, 0.75], dtype=torch.float64),
            torch.tensor(0.25, dtype=torch.float64),
            -4,
            3,
        ),
    ),
)
