"""Linear and ReLU in one

1. As separate layers, the ReLU would save its output, and the linear layer would save its input and
   weight. What does the ReLU's backward read from the output?
2. It only reads where the output is positive. So set grad_output to zero where the output is zero.
   The rest is the backward of a linear layer, which you know from lesson 01.
3. In setup_context, save x, weight and output. In backward, let g = grad_output * (y > 0). The
   gradients are g @ weight, g.t() @ x and g.sum(0).
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.exercises.lesson_07_memory_patterns._saved import (
    bytes_of,
    keeps_no_intermediate,
)
from autograd_course.grader.checks import CONDUCT, MANY, keeps_at_most, no_copy_on_ctx, on
from autograd_course.grader.checks.calling import applied, found
from autograd_course.grader.exercise import FunctionExercise, by_values
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import mistaken


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return ``max(x Wᵀ + b, 0)``."""
    return torch.nn.functional.linear(x, weight, bias).relu()


@by_values
def stops_at_zero(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that the gradient is 0 where the input of the ReLU is exactly 0."""
    x, weight = (torch.tensor([row], dtype=torch.float64) for row in ((1.0, -1.0), (1.0, 1.0)))
    given, outputs = applied(function, (x, weight, torch.zeros(1, dtype=torch.float64)))
    (gradient,) = torch.autograd.grad(outputs[0].sum(), given[0])
    if not gradient.any():
        return None
    return found(
        "kink-convention",
        "Where x Wᵀ + b is exactly 0, your gradient passes. This exercise asks for 0 there, as in "
        "`torch.relu`. Everywhere else your gradient is right.",
        {"at": 0.0},
        "At a kink no derivative exists, so the exercise states a convention. Which comparison in "
        "backward includes 0?",
    )


def masked_by(
    *masks: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> Callable[..., Any]:
    """Return a linear layer with a ReLU whose backward masks ``grad_output`` with ``masks``.

    Each of the three ``masks`` takes x, the weight and the output. They apply to the gradients of
    x, the weight and the bias, in that order.
    """

    def backward(inputs: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, weight, _ = inputs
        y = linear_relu(*inputs)
        for_x, for_weight, for_bias = (g * mask(x, weight, y) for mask in masks)
        return for_x @ weight, for_weight.t() @ x, for_bias.sum(0)

    return mistaken(linear_relu, backward)


def _stops(x: Tensor, weight: Tensor, y: Tensor) -> Tensor:
    return (y > 0).to(y.dtype)


def _passes(x: Tensor, weight: Tensor, y: Tensor) -> Tensor:
    return torch.ones_like(y)


def _without_bias(x: Tensor, weight: Tensor, y: Tensor) -> Tensor:
    return (x @ weight.t() > 0).to(y.dtype)


def _by_output(x: Tensor, weight: Tensor, y: Tensor) -> Tensor:
    return y


LINEAR_SUSPECTS: Mapping[str, Callable[..., Any]] = {
    "The bias is added after the ReLU. It belongs inside: max(x Wᵀ + b, 0).": (
        lambda x, weight, bias: (x @ weight.t()).relu() + bias
    ),
    "The bias is missing.": lambda x, weight, bias: (x @ weight.t()).relu(),
    "The ReLU is missing: some elements are negative.": lambda x, weight, bias: (
        x @ weight.t() + bias
    ),
}
LINEAR_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "The gradient passes even where the ReLU returned 0. It must be 0 there. (y is never negative, "
    "so y >= 0 is true everywhere.)": masked_by(_passes, _passes, _passes),
    "The mask compares x Wᵀ with 0 and ignores the bias. The ReLU gets x Wᵀ + b. You can read the "
    "mask from the output.": masked_by(_without_bias, _without_bias, _without_bias),
    "grad_output is multiplied by the output y. The ReLU only lets the gradient through or stops "
    "it, so its derivative is 0 or 1.": masked_by(_by_output, _by_output, _by_output),
    **{
        f"The gradient of {names} passes even where the ReLU returned 0. The gradients of all "
        "three inputs go through the ReLU.": masked_by(*masks)
        for names, masks in (
            ("bias", (_stops, _stops, _passes)),
            ("weight", (_stops, _passes, _stops)),
            ("x", (_passes, _stops, _stops)),
            ("weight and bias", (_stops, _passes, _passes)),
            ("x and bias", (_passes, _stops, _passes)),
            ("x and weight", (_passes, _passes, _stops)),
        )
    },
}

inputs_and_output = keeps_at_most(
    lambda x, weight, bias: bytes_of(x, weight, bias) + len(x) * len(weight) * x.itemsize,
    "the inputs and the output, and nothing else",
)

EXERCISE = FunctionExercise(
    answer="LinearReLU",
    points=2,
    difficulty="easy",
    minutes=9,
    section="Fuse two operations",
    constraints="nothing but inputs and the output is saved",
    reference=linear_relu,
    samplers={
        "a batch of 5 rows": lambda rng: (normal(rng, 5, 3), normal(rng, 4, 3), normal(rng, 4)),
        "a single row": lambda rng: (normal(rng, 1, 3), normal(rng, 2, 3), normal(rng, 2)),
        "one feature in": lambda rng: (normal(rng, 6, 1), normal(rng, 3, 1), normal(rng, 3)),
    },
    suspects=LINEAR_SUSPECTS,
    gradient_suspects=LINEAR_GRADIENTS,
    checks=(
        *CONDUCT,
        no_copy_on_ctx,
        inputs_and_output,
        on(
            lambda rng: (normal(rng, *MANY), normal(rng, 9, MANY[1]), normal(rng, 9)),
            inputs_and_output,
        ),
        keeps_no_intermediate,
        stops_at_zero,
    ),
)
