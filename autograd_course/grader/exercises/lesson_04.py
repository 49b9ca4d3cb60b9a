"""The exercises of lesson 04: quantizers with a declared gradient, sampling, a binary net."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from autograd_course.grader.checks import backward_is_a_formula, gradient_at, no_tensor_on_ctx
from autograd_course.grader.exercise import FunctionExercise, RoutineExercise, Sampler
from autograd_course.grader.exercises.lesson_04_sampling import SAMPLING
from autograd_course.grader.exercises.lesson_04_training import TRAINING
from autograd_course.grader.sampling import around, normal, shaped

LESSON = "04_straight_through"
TITLE = "The straight-through estimator"


def sign(x: Tensor) -> Tensor:
    """Return +1 where ``x ≥ 0``, -1 elsewhere."""
    return torch.where(x >= 0, 1.0, -1.0).to(x)


def identity(x: Tensor) -> Tensor:
    """Return ``x``: its derivative stands in for that of the sign."""
    return x.clone()


def clipped(x: Tensor) -> Tensor:
    """Return ``x`` clipped to [-1, 1]; at the bounds its gradient is 1."""
    # Not clamp alone: at its bounds PyTorch 2.13 has the gradient 1, and 2.14 has 0.
    return torch.where(x.abs() > 1, x.detach().clamp(-1, 1), x)


def round_to(x: Tensor, step: float) -> Tensor:
    """Return the multiple of ``step`` nearest to ``x``, of two the even one."""
    return step * torch.round(x / step)


def unrounded(x: Tensor, step: float) -> Tensor:
    """Return ``x``: its derivative stands in for that of the rounding."""
    return x.clone()


def fake_quantize(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
    """Return ``step · round(clamp(x / step, low, high))``, for bounds that are integers."""
    return step * torch.round(x / step).clamp(low, high)


def straight_through(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
    """Return the same, with a rounding that autograd takes for the identity.

    Inside and beyond the bounds are two paths from ``step``, so that the doctor can tell which of
    them an answer forgot.
    """
    v = x / step
    inside = (v >= low) & (v <= high)
    rounded = v + (v.round() - v).detach()
    return torch.where(inside, step * rounded, step * v.detach().clamp(low, high))


def clamped_by_level(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
    """Return the same, with the rounded level held against the bounds instead of ``x / step``."""
    v = x / step
    rounded = v + (v.round() - v).detach()
    level = rounded.detach()
    inside = (level >= low) & (level <= high)
    return torch.where(inside, step * rounded, step * level.clamp(low, high))


def clamped_by_level_for_x(x: Tensor, step: Tensor, low: int, high: int) -> Tensor:
    """Return the same, with a gradient of ``step`` that is right."""
    right = straight_through(x.detach(), step, low, high)
    of_x = clamped_by_level(x, step.detach(), low, high)
    return right + of_x - of_x.detach()


BY_LEVEL = (
    "Beside a bound lies an x whose level is the bound, and whose x / step is beyond it. The clamp "
    "comes before the rounding: "
)


def with_zeros(rng: torch.Generator) -> tuple[Tensor]:
    """Return numbers of both signs, in each row both zeros and a number next to nothing."""
    x = normal(rng, 2, 5)
    x[:, 1:4] = torch.tensor([0.0, -0.0, -1e-15], dtype=x.dtype)
    return (x,)


def on_levels(
    rng: torch.Generator, shape: tuple[int, ...], step: float, low: int, high: int
) -> tuple[Tensor, Tensor, int, int]:
    """Return numbers inside and beyond both bounds, close to no bound and no middle of a step.

    Beyond a bound some are so near that they round to it: there a mask of levels and one of
    ``x / step`` differ.
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


SIGN_INPUTS: Mapping[str, Sampler] = {**shaped(normal), "zeros among the numbers": with_zeros}

CLIPPED_INPUTS: Mapping[str, Sampler] = {
    **shaped(lambda rng, *shape: around(rng, (-1.0, 0.0, 1.0), *shape)),
    "zeros among the numbers": with_zeros,
}

ROUND_INPUTS: Mapping[str, Sampler] = {
    "step 0.3": lambda rng: (normal(rng, 3, 5), 0.3),
    "step 1": lambda rng: (3 * normal(rng, 5), 1.0),
    "halves of step 0.5": lambda rng: (torch.arange(-5, 6, dtype=torch.float64) / 4, 0.5),
    "three axes, one of length 1": lambda rng: (normal(rng, 2, 1, 3), 0.1),
    "a single number (0-dim)": lambda rng: (normal(rng), 2.0),
}

QUANTIZE_INPUTS: Mapping[str, Sampler] = {
    "three signed bits (-4 … 3)": lambda rng: on_levels(rng, (3, 5), 0.05, -4, 3),
    "two unsigned bits (0 … 3)": lambda rng: on_levels(rng, (7,), 1.5, 0, 3),
    "three axes, one of length 1": lambda rng: on_levels(rng, (2, 1, 6), 0.1, -8, 7),
    "a single number (0-dim)": lambda rng: on_levels(rng, (), 0.7, -2, 1),
}

QUANTIZERS: tuple[FunctionExercise, ...] = (
    FunctionExercise(
        id="sign-ste",
        lesson=LESSON,
        title="Sign, straight through",
        points=1,
        reference=sign,
        surrogate=identity,
        samplers=SIGN_INPUTS,
        hints=(
            "backward does not differentiate the sign. Which function did the exercise declare in "
            "its place, and what is the derivative of that?",
            "The declared stand-in is the identity: its derivative is 1, so the vector-Jacobian "
            "product is grad_output times 1. Does backward need anything from forward?",
            "In forward: torch.where(x >= 0, 1.0, -1.0), brought to the dtype of x with .to(x). "
            "In backward: return grad_output.",
        ),
        read='lesson 04, "The whole thing, working"',
        bounds="the output at exactly 0 is +1, whatever the sign of that zero",
        checks=(backward_is_a_formula, no_tensor_on_ctx),
    ),
    FunctionExercise(
        id="clipped-sign",
        lesson=LESSON,
        title="Sign, clipped straight-through",
        points=2,
        reference=sign,
        surrogate=clipped,
        samplers=CLIPPED_INPUTS,
        hints=(
            "Sketch clamp(x, -1, 1). How steep is each of its three pieces? That is what "
            "grad_output is multiplied by, and it depends on x, not on the output.",
            "The local gradient is a mask: 1 where |x| ≤ 1, else 0. Neither grad_output nor x is "
            "clipped in backward; x only decides where grad_output passes.",
            "Save the mask x.abs() <= 1 in forward; return grad_output times the mask.",
        ),
        read='lesson 04, "Where the gradient stops"',
        bounds="the gradient still passes at exactly -1 and +1",
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
            gradient_at(clipped, torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)),
        ),
    ),
    FunctionExercise(
        id="round-ste",
        lesson=LESSON,
        title="Round to a grid, straight through",
        points=2,
        reference=round_to,
        surrogate=unrounded,
        samplers=ROUND_INPUTS,
        hints=(
            "With a rounding that passes its gradient on unchanged, what is the derivative of "
            "step · (x / step) with respect to x?",
            "The step divides before the rounding and multiplies after it: in the derivative the "
            "two cancel. And backward owes one value for each argument of forward.",
            "In forward: step * torch.round(x / step). In backward: return grad_output, None.",
        ),
        read='lesson 04, "Quantize with a learned step"',
        bounds="a number in the middle between two goes to the even one, as in torch.round",
        checks=(backward_is_a_formula, no_tensor_on_ctx),
    ),
    FunctionExercise(
        id="fake-quantize",
        lesson=LESSON,
        title="Fake quantization with a learned step",
        points=4,
        reference=fake_quantize,
        surrogate=straight_through,
        samplers=QUANTIZE_INPUTS,
        hints=(
            "Write v = x/s. Treat three cases apart: v below low, v from low to high, v above "
            "high. In two of them y does not depend on x any more. Does it still depend on s?",
            "Beyond a bound y is s·low or s·high, so ∂y/∂s is that bound. Inside, y = s·round(x/s) "
            "is a product of two factors that both depend on s; the product rule, with rounding "
            "taken for the identity, gives round(v) minus something. One s serves all elements.",
            "With inside = (v >= low) & (v <= high): the gradient of x is g · inside. That of s is "
            "the sum over all elements of g · (round(v) - v) inside and of g times the bound "
            "outside; torch.where(inside, v.round() - v, v.clamp(low, high)) is both at once.",
        ),
        read='lesson 04, "Quantize with a learned step"',
        bounds="the gradient of x still passes at exactly the bounds",
        gradient_suspects={
            BY_LEVEL + "hold x / step against the bounds, not its level.": clamped_by_level,
            BY_LEVEL + "for the gradient of x, too, hold x / step against the bounds, not its "
            "level.": clamped_by_level_for_x,
        },
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
            gradient_at(
                straight_through,
                torch.tensor([-1.0, 0.25, 0.75], dtype=torch.float64),
                torch.tensor(0.25, dtype=torch.float64),
                -4,
                3,
            ),
        ),
    ),
)

EXERCISES: tuple[FunctionExercise | RoutineExercise, ...] = (*QUANTIZERS, *SAMPLING, *TRAINING)
