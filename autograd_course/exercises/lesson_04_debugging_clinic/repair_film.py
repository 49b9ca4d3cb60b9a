"""Repair: scale and shift on a frozen backbone

1. Print what backward returns if x is frozen, and compare it with the arguments of forward. How
   does autograd know which value belongs to which argument?
2. Autograd matches gradients and arguments by position. This list contains only the gradients that
   are needed, so every gradient after a missing one is at the wrong position.
3. Start with grad_x = grad_gamma = grad_beta = None, compute those that needs_input_grad asks for,
   and return all three in the order of the arguments.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.calls import as_tuple
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import returned_by


def film(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """Return ``γ x + β``, with a scale and a shift for each column."""
    return x * gamma + beta


NAMES = ("x", "gamma", "beta")


def moves_gradients(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Return a finding if a gradient moves to another position when the other inputs are frozen."""
    for place, name in enumerate(NAMES):
        given = [tensor.detach().clone() for tensor in inputs]
        output = function.apply(*(it.requires_grad_(it is given[place]) for it in given))
        returned = as_tuple(function.backward(output.grad_fn, torch.ones_like(output)))
        at = [number for number, gradient in enumerate(returned) if gradient is not None]
        if not at:
            return found(
                "frozen-input",
                "The gradient is missing.",
                {"argument": name},
                f"If only {name} requires grad, `backward` returns no gradient at all. Each flag "
                "of ctx.needs_input_grad decides about one gradient.",
            )
        if place not in at:
            return found(
                "frozen-input",
                "The gradient is at another position.",
                {"argument": name},
                f"If only {name} requires grad, `backward` returns its gradient as value number "
                f"{at[0] + 1}. {name} is argument number {place + 1}. The position of each None "
                "counts, too: every gradient stays at the position of its argument.",
            )
    return None


def multiplies_sums(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Return a finding if x is summed before it is multiplied by the gradient."""
    x, gamma = inputs[0].detach(), returned_by(function, inputs)[1]
    if gamma.shape != x.shape or not torch.allclose(gamma, x.sum(0).expand_as(x)):
        return None
    return found(
        "unreduced-broadcast",
        "The sum comes before the product.",
        {},
        "For gamma, x is summed over the rows before it is multiplied by grad_output. Multiply "
        "them row by row first, and then sum the products.",
    )


EXERCISE = FunctionExercise(
    answer="FiLM",
    points=1,
    difficulty="easy",
    minutes=9,
    section="What gradcheck does not ask",
    constraints="the gradients are also right if any of the three tensors is frozen",
    reference=film,
    samplers={
        "4 rows of 3": lambda rng: (normal(rng, 4, 3), normal(rng, 3), normal(rng, 3)),
        "one row": lambda rng: (normal(rng, 1, 5), normal(rng, 5), normal(rng, 5)),
        "rows of one number": lambda rng: (normal(rng, 6, 1), normal(rng, 1), normal(rng, 1)),
    },
    checks=CONDUCT,
    causes=(moves_gradients, multiplies_sums),
    modeled_on="Liger-Kernel #930: a fused loss that was right only if all of its inputs "
    "required a gradient",
)
