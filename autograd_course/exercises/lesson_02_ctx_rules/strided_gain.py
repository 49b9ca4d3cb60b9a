"""Strided gain

1. forward has four arguments. Which of them are tensors that backward reads, and which are numbers
   and flags? When `x` is not multiplied by `gain`, does backward need the values of `x`?
2. backward needs the stride, the flag and the shape of x as attributes. It needs x and gain as
   saved tensors, but only in training. The gradient of x is zero for each element that was left
   out. So start with zeros that have the shape of x and the dtype of grad_output.
3. Let grad_x = grad_output.new_zeros(ctx.shape), then assign grad_output to grad_x[...,
   ::ctx.stride]. In training, multiply grad_output by gain first. The gradient of gain is
   grad_output times the kept elements of x. Check ctx.needs_input_grad before you compute each
   gradient, return None for stride and training, and .clone() the slice if forward returns it
   unchanged.
"""

from typing import Any

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, keeps_at_most, no_tensor_on_ctx
from autograd_course.grader.exercise import Check, FunctionExercise
from autograd_course.grader.sampling import normal


def strided_gain(x: Tensor, gain: Tensor, stride: int, training: bool) -> Tensor:
    """Return every ``stride``-th element of the last dim, multiplied by ``gain`` in training."""
    kept = x[..., ::stride]
    return kept * gain if training else kept.clone()


def signal(
    rng: torch.Generator, shape: tuple[int, ...], stride: int, training: bool
) -> tuple[Any, ...]:
    """Return random arguments for ``StridedGain``. ``gain`` has the shape of the output."""
    kept = (*shape[:-1], -(-shape[-1] // stride))
    return normal(rng, *shape), normal(rng, *kept), stride, training


def in_evaluation(check: Check) -> Check:
    """Return a check that runs ``check`` on the same call with ``training=False``."""
    return lambda function, inputs: check(function, (*inputs[:-1], False))


EXERCISE = FunctionExercise(
    answer="StridedGain",
    points=3,
    difficulty="medium",
    minutes=20,
    section="Separate forward and setup_context",
    constraints="a gradient is computed only if it is needed, the output is not a view, and "
    "nothing is saved when training is False",
    reference=strided_gain,
    samplers={
        "stride 2, in training": lambda rng: signal(rng, (2, 7), 2, True),
        "stride 2, not in training": lambda rng: signal(rng, (2, 7), 2, False),
        "stride 1": lambda rng: signal(rng, (5,), 1, True),
        "stride 1, not in training": lambda rng: signal(rng, (2, 3), 1, False),
        "stride 3, three dimensions, one of length 1": lambda rng: signal(rng, (2, 1, 6), 3, True),
        "a stride longer than the dimension": lambda rng: signal(rng, (3, 2), 4, True),
    },
    asked=("wasted-gradient", "returns-view"),
    checks=(
        *CONDUCT,
        in_evaluation(no_tensor_on_ctx),
        in_evaluation(
            keeps_at_most(
                lambda x, gain, stride, training: 0,
                "when training is False, backward needs no tensor",
            )
        ),
    ),
)
