"""Soft threshold in C++: the Function

1. The operator takes a number, but the threshold is a tensor with one element. Backward needs to
   know which elements of x became 0, and it needs the signs of the others. Which tensor tells you
   both?
2. The output tells you both. Where y is not 0, the slope is 1 for x and -sign(y) for the threshold.
   Where y is 0, both slopes are 0. All elements share one threshold, so how do you combine their
   contributions?
3. forward returns soft_threshold(x, threshold.item()), and setup_context saves the output.
   backward returns grad_output * (y != 0) and -(grad_output * y.sign()).sum().
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from autograd_course.exercises.lesson_14_external_code._soft_threshold import (
    SECONDS,
    soft_threshold,
)
from autograd_course.external import compiler_missing
from autograd_course.grader.checks import CONDUCT, MANY, on, saves_only_outputs
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import around
from autograd_course.grader.suspecting import Grads, returning


def slopes(
    of_x: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda g, y, x: g * (y != 0),
    of_t: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda g, y, x: -(g * y.sign()).sum(),
) -> Callable[..., Any]:
    """Return a soft threshold whose gradients are these functions of grad_output, y and x."""

    def backward(x: Tensor, threshold: Tensor, g: Tensor) -> Grads:
        y = soft_threshold(x, float(threshold))
        return of_x(g, y, x), of_t(g, y, x)

    return returning(soft_threshold, backward)


SUSPECTS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "The result has no negative numbers. What should x = -2 become?": (
        lambda x, t: (x - t).clamp(min=0)
    ),
    "Numbers beyond the threshold should move toward 0 by t, but they stay the same.": (
        lambda x, t: torch.where(x.abs() > t, x, 0)
    ),
    "Negative numbers move away from 0. They must move toward 0 by t.": (
        lambda x, t: torch.where(x.abs() > t, x - t, 0)
    ),
    "The result is |x| - t, without the sign of x.": lambda x, t: (x.abs() - t).clamp(min=0),
    "Numbers within the threshold stay the same. They must become 0.": (
        lambda x, t: torch.where(x.abs() > t, x - t * x.sign(), x)
    ),
    "The result is x limited to -t and t. The soft threshold is what this cuts off.": (
        lambda x, t: torch.minimum(torch.maximum(x, -t), t)
    ),
    "Numbers within the threshold pass 0 and change their sign. They must become 0: limit |x| - t "
    "to 0 or more.": lambda x, t: x.sign() * (x.abs() - t),
    "The result is x - t for x > t, and x + t for all other numbers. Numbers within the threshold "
    "must become 0.": lambda x, t: torch.where(x > t, x - t, x + t),
}


def unbalanced(rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return inputs with more positive than negative outputs.

    If there were equally many of both, the sum of the signs would be 0, and some mistakes would
    look the same.
    """
    x = around(rng, (-0.5, 0.5), 4, 6)
    x[0, 0] = x[0, 0].abs()
    return x, torch.tensor(0.5).double()


GRADIENT_SUSPECTS: Mapping[str, Callable[..., Any]] = {
    "The slope of x is 1 everywhere. Where y is 0, it is 0.": slopes(of_x=lambda g, y, x: g),
    "The slope of x is the sign of y. Both branches have the slope 1: x - t and x + t.": slopes(
        of_x=lambda g, y, x: g * y.sign()
    ),
    "The slope of x is 0 for negative numbers. There, y is x + t, so the slope is 1.": slopes(
        of_x=lambda g, y, x: g * (y > 0)
    ),
    "backward multiplies by y itself. The slope of x is 1 where y is not 0.": slopes(
        of_x=lambda g, y, x: g * y
    ),
    "The slope of x is 1 where y is 0, and 0 elsewhere. Exchange them.": slopes(
        of_x=lambda g, y, x: g * (y == 0)
    ),
    "The gradient of the threshold is 0. If it rises, each y that is not 0 moves toward 0.": slopes(
        of_t=lambda g, y, x: torch.zeros_like(g.sum())
    ),
    "The gradient of the threshold has the wrong sign. If the threshold rises, positive y fall.": (
        slopes(of_t=lambda g, y, x: (g * y.sign()).sum())
    ),
    "The gradient of the threshold is wrong for negative numbers. There, y is x + t, so y rises "
    "with t.": slopes(of_t=lambda g, y, x: -(g * (y != 0)).sum()),
    "The gradient of the threshold lacks the negative numbers. There, y is x + t.": slopes(
        of_t=lambda g, y, x: -(g * (y > 0)).sum()
    ),
    "The gradient of the threshold uses the sign of x, also where y is 0. There, it must be 0.": (
        slopes(of_t=lambda g, y, x: -(g * x.sign()).sum())
    ),
    "The gradient of the threshold is a mean. Add the contributions of all elements.": slopes(
        of_t=lambda g, y, x: -(g * y.sign()).mean()
    ),
    "The sum of grad_output is multiplied by the sum of the signs. Multiply each grad_output by "
    "the sign of its own y, and then add.": slopes(of_t=lambda g, y, x: -g.sum() * y.sign().sum()),
    "The gradient of the threshold ignores grad_output. Multiply each sign by its grad_output, and "
    "then add.": slopes(of_t=lambda g, y, x: -y.sign().sum()),
    "The gradient of the threshold is the sum of grad_output. The slope of each y is minus its "
    "sign.": slopes(of_t=lambda g, y, x: g.sum()),
    "The gradient of the threshold is the sum of -grad_output. The slope of each y is minus its "
    "sign.": slopes(of_t=lambda g, y, x: -g.sum()),
    "The gradient of the threshold contains y itself. The slope of each y is minus its sign.": (
        slopes(of_t=lambda g, y, x: -(g * y).sum())
    ),
}

EXERCISE = FunctionExercise(
    answer="SoftThreshold",
    points=2,
    difficulty="medium",
    minutes=10,
    section="The whole thing, working",
    constraints="the Function saves nothing but the output",
    reference=soft_threshold,
    samplers={
        "24 numbers": unbalanced,
        "three dims, one of size 1": lambda rng: (
            around(rng, (-1.0, 1.0), 2, 1, 3),
            torch.tensor(1.0).double(),
        ),
        "a single number (0-dim)": lambda rng: (
            2 + around(rng, (0.0,)).abs(),
            torch.tensor(0.3).double(),
        ),
    },
    suspects=SUSPECTS,
    gradient_suspects=GRADIENT_SUSPECTS,
    double_backward=True,
    checks=(
        *CONDUCT,
        saves_only_outputs,
        on(
            lambda rng: (around(rng, (-1.0, 1.0), *MANY), torch.tensor(1.0).double()),
            saves_only_outputs,
        ),
    ),
    seconds=SECONDS,
    needs=compiler_missing,
)
