"""Maximum, saved as a mask

1. Where a is larger, the whole gradient goes to a. What does backward need to know about an
   element, and how many bytes does that take?
2. In setup_context, compute a mask of where a is larger, and save nothing else. A torch.bool takes
   one byte. Backward gives the gradient to a where the mask is true, and to b elsewhere.
3. ctx.save_for_backward(a > b) in setup_context. In backward, (a_wins,) = ctx.saved_tensors; return
   grad_output * a_wins, grad_output * ~a_wins.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks import CONDUCT, MANY, keeps_at_most, no_copy_on_ctx, on
from autograd_course.grader.checks.calling import applied, found
from autograd_course.grader.exercise import FunctionExercise, by_values
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import mistaken


def maximum(a: Tensor, b: Tensor) -> Tensor:
    """Return the elementwise maximum."""
    return torch.maximum(a, b)


def inverted_bits(dtype: torch.dtype) -> Callable[..., Any]:
    """Return a maximum whose backward inverts an integer mask with ``~``."""

    def backward(inputs: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        mask = (inputs[0] > inputs[1]).to(dtype)
        return g * mask, g * ~mask

    return mistaken(maximum, backward)


MAXIMUM_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "~ inverts all eight bits of a torch.uint8: ~1 is 254, and ~0 is 255. Save the mask as "
    "torch.bool, or compare it with 0.": inverted_bits(torch.uint8),
    "~ inverts all bits of an integer, and its sign: ~1 is -2, and ~0 is -1. Save the mask as "
    "torch.bool, or compare it with 0.": inverted_bits(torch.int8),
    "Both inputs get the whole gradient. Only the larger one should get it.": mistaken(
        maximum, lambda inputs, g: (g, g)
    ),
    "Each input gets half of the gradient. The whole gradient belongs to the larger one.": mistaken(
        maximum, lambda inputs, g: (g / 2, g / 2)
    ),
}


@by_values
def a_tie_loses_nothing(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that the two gradients add up to the whole gradient where the inputs are equal."""
    a, b = torch.tensor([2.0, 1.0, 3.0]).double(), torch.tensor([2.0, 4.0, 0.0]).double()
    given, outputs = applied(function, (a, b))
    of_a, of_b = (float(g[0]) for g in torch.autograd.grad(outputs[0].sum(), given))
    if abs(of_a + of_b - 1) < 1e-9 and min(of_a, of_b) >= 0:
        return None
    who = {0.0: "neither input gets", 2.0: "both inputs get"}.get(of_a + of_b)
    told = f"{who} the gradient" if who else f"the gradients are {of_a:g} and {of_b:g}"
    return found(
        "kink-convention",
        f"Where `a` and `b` are equal, {told}. This exercise asks you to give it to one of them. "
        "Everywhere else your gradients are right.",
        {"a": of_a, "b": of_b},
        "Which value does your mask have where `a` equals `b`? One comparison, such as `a > b`, "
        "and its negation cover every element once.",
    )


def a_tie_in_the_example(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Return the same finding under the rule for an example that contains a tie."""
    told = a_tie_loses_nothing(function, inputs)
    return replace(told, rule="wrong-region") if isinstance(told, Finding) else None


one_byte_each = keeps_at_most(lambda a, b: a.numel(), "one byte for each element")

EXERCISE = FunctionExercise(
    answer="Maximum",
    points=2,
    difficulty="easy",
    minutes=8,
    section="Save something smaller",
    constraints="at most one byte for each element is saved for backward",
    reference=maximum,
    samplers={
        "a matrix": lambda rng: (normal(rng, 4, 6), normal(rng, 4, 6)),
        "three dimensions": lambda rng: (normal(rng, 3, 1, 5), normal(rng, 3, 1, 5)),
        "a single number (0-dim)": lambda rng: (normal(rng), normal(rng)),
    },
    gradient_suspects=MAXIMUM_GRADIENTS,
    checks=(
        *CONDUCT,
        no_copy_on_ctx,
        one_byte_each,
        on(lambda rng: (normal(rng, *MANY), normal(rng, *MANY)), one_byte_each),
        a_tie_loses_nothing,
    ),
    causes=(a_tie_in_the_example,),
)
