"""Fake quantization with a learned step

1. Write v = x/s. Treat three cases separately: v below low, v from low to high, v above high.
   In two of them y no longer depends on x. Does it still depend on s?
2. Outside the bounds, y is s·low or s·high, so ∂y/∂s is that bound. Inside, y = s·round(x/s) is a
   product of two factors, and both depend on s. Use the product rule, with 1 as the derivative of
   the rounding: it gives round(v) minus something. One s serves all elements.
3. With inside = (v >= low) & (v <= high), the gradient of x is g · inside. The
   gradient of s is a sum over all elements: g · (round(v) - v) inside, and g times the bound
   outside. torch.where(inside, v.round() - v, v.clamp(low, high)) gives both cases at once.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, gradient_at
from autograd_course.grader.exercise import FunctionExercise


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
    """Return numbers inside and outside the bounds, but none close to a bound or a tie.

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
    gradient_suspects={
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
