"""Scaled sigmoid

1. Differentiate σ first, without gain and slope. You can write its derivative with x or without x.
   Which form suits a backward that has only the output?
2. σ' = σ(1 - σ), and σ itself is y / gain. Put that into the chain rule for gain · σ(slope · x).
   One factor comes from outside σ, and one from inside.
3. ∂y/∂x = slope · y · (1 - y / gain). Save y, keep the two numbers as ctx.gain and ctx.slope,
   multiply by grad_output, and return None for each of the two numbers.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, MANY, on, saves_only_outputs
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import returning


def scaled_sigmoid(x: Tensor, gain: float, slope: float) -> Tensor:
    """Return ``gain · σ(slope · x)``."""
    return gain * torch.sigmoid(slope * x)


def sigmoid_of_the_output(x: Tensor, gain: float, slope: float, g: Tensor) -> Tensor:
    """Return the gradient of a backward that takes the sigmoid of y."""
    s = torch.sigmoid(scaled_sigmoid(x, gain, slope))
    return gain * slope * s * (1 - s) * g


EXERCISE = FunctionExercise(
    answer="ScaledSigmoid",
    points=2,
    difficulty="medium",
    minutes=10,
    section="Save the output instead of the input",
    constraints="nothing but the output is kept for backward",
    reference=scaled_sigmoid,
    samplers={
        "gain 2, slope 3": lambda rng: (normal(rng, 2, 3), 2.0, 3.0),
        "a negative gain": lambda rng: (normal(rng, 5), -1.5, 0.5),
        "a negative slope": lambda rng: (normal(rng, 2, 1, 3), 0.7, -2.0),
        "a single number (0-dim)": lambda rng: (normal(rng), 3.0, 1.0),
    },
    suspects={
        "The result lacks the factor gain.": lambda x, gain, slope: torch.sigmoid(slope * x),
        "The factor slope is missing inside the sigmoid.": lambda x, gain, slope: (
            gain * torch.sigmoid(x)
        ),
        "gain and slope are exchanged: gain is the factor outside the sigmoid.": (
            lambda x, gain, slope: slope * torch.sigmoid(gain * x)
        ),
    },
    gradient_suspects={
        "`backward` takes the sigmoid of y. y is already gain times the sigmoid, so divide it by "
        "gain instead.": returning(scaled_sigmoid, sigmoid_of_the_output),
        "`backward` takes the sigmoid of y, and the factor gain is missing. y is already gain "
        "times the sigmoid.": returning(
            scaled_sigmoid, lambda *given: sigmoid_of_the_output(*given) / given[1]
        ),
    },
    checks=(
        *CONDUCT,
        saves_only_outputs,
        on(lambda rng: (normal(rng, *MANY), 2.0, 3.0), saves_only_outputs),
    ),
)
