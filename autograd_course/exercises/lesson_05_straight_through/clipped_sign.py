"""Sign, clipped straight-through

1. Sketch clamp(x, -1, 1). How steep is each of its three pieces? backward multiplies grad_output by
   that slope, which depends on x, not on the output.
2. The local gradient is a mask: 1 where |x| ≤ 1, else 0. backward clips neither grad_output nor x.
   x only decides where grad_output passes.
3. In setup_context: save the mask x.abs() <= 1. In backward: return grad_output times the mask.
"""

import torch

from autograd_course.exercises.lesson_05_straight_through._sign import (
    SIGN_SUSPECTS,
    clipped,
    sign,
    with_zeros,
)
from autograd_course.grader.checks import CONDUCT, gradient_at
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import around, shaped
from autograd_course.grader.suspecting import returning

EXERCISE = FunctionExercise(
    answer="ClippedSignSTE",
    points=2,
    difficulty="easy",
    minutes=7,
    section="Your first straight-through estimator",
    constraints="the gradient still passes at exactly -1 and +1",
    reference=sign,
    surrogate=clipped,
    suspects=SIGN_SUSPECTS,
    gradient_suspects={
        "The gradient also passes below -1. The interval has two ends, so compare x with both.": (
            returning(sign, lambda x, g: g * (x <= 1))
        ),
        "The gradient also passes above 1. The interval has two ends, so compare x with both.": (
            returning(sign, lambda x, g: g * (x >= -1))
        ),
        "The gradient stops for negative x. The interval begins at -1, not at 0.": returning(
            sign, lambda x, g: g * ((x >= 0) & (x <= 1))
        ),
        "The size of grad_output decides where it passes. The size of x must decide.": returning(
            sign, lambda x, g: g * (g.abs() <= 1)
        ),
        "The mask is inverted. The gradient passes inside the interval, not outside.": returning(
            sign, lambda x, g: g * (x.abs() > 1)
        ),
        "The gradient passes everywhere. Both bounds must hold, and for x: a mask that compares "
        "the output with -1 and +1 is always true.": returning(sign, lambda x, g: g),
        "This multiplies by the clipped x itself. The gradient needs the slope of the clip, which "
        "is 1 inside the interval and 0 outside.": returning(sign, lambda x, g: g * x.clamp(-1, 1)),
    },
    samplers={
        **shaped(lambda rng, *shape: around(rng, (-1.0, 0.0, 1.0), *shape)),
        "zeros among the numbers": with_zeros,
    },
    checks=(
        *CONDUCT,
        gradient_at(clipped, torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)),
    ),
)
