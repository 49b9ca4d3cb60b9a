"""Soft threshold in C++: the Function

1. The operator takes a number, and the threshold is a tensor with one. Backward needs to know where
   x was cut to 0, and elsewhere its sign. Which tensor shows both?
2. The output does. Where it is not 0, x has slope 1 and the threshold slope -sign(y); where it is
   0, both have 0. The threshold is one number for all elements, so what becomes of their
   contributions?
3. y = soft_threshold(x, threshold.item()); save y and return it. backward returns grad_output * (y
   != 0) and -(grad_output * y.sign()).sum().
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
    constraints="nothing but the output is kept",
    reference=soft_threshold,
    samplers={
        "24 numbers": lambda rng: (around(rng, (-0.5, 0.5), 4, 6), torch.tensor(0.5).double()),
        "three axes, one of length 1": lambda rng: (
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
