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

import torch

from autograd_course.exercises.lesson_14_external_code._soft_threshold import (
    SECONDS,
    soft_threshold,
)
from autograd_course.external import compiler_missing
from autograd_course.grader.checks import CONDUCT, saves_only_outputs
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import around

EXERCISE = FunctionExercise(
    answer="SoftThreshold",
    points=2,
    difficulty="medium",
    minutes=10,
    section="The whole thing, working",
    constraints="the Function saves nothing but the output",
    reference=soft_threshold,
    samplers={
        "24 numbers": lambda rng: (around(rng, (-0.5, 0.5), 4, 6), torch.tensor(0.5).double()),
        "three dims, one of size 1": lambda rng: (
            around(rng, (-1.0, 1.0), 2, 1, 3),
            torch.tensor(1.0).double(),
        ),
        "a single number (0-dim)": lambda rng: (
            2 + around(rng, (0.0,)).abs(),
            torch.tensor(0.3).double(),
        ),
    },
    double_backward=True,
    checks=(*CONDUCT, saves_only_outputs),
    seconds=SECONDS,
    needs=compiler_missing,
)
