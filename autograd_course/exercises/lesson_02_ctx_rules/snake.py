"""Snake

1. forward needs no ctx. What does backward read, and which of these values are tensors?
2. Save x with save_for_backward, and store a as an attribute, both in setup_context. By the chain
   rule, multiply the derivative 1 + sin(2 a x) by grad_output.
3. In setup_context: x, ctx.a = inputs, then ctx.save_for_backward(x). In backward: (x,) =
   ctx.saved_tensors, then return grad_output * (1 + torch.sin(2 * ctx.a * x)), and None for a.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks import CONDUCT, MANY, keeps_at_most, on
from autograd_course.grader.checks.calling import applied, found, node
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import returning


def snake(x: Tensor, a: float) -> Tensor:
    """Return ``x + sin²(a x) / a``."""
    return x + torch.sin(a * x) ** 2 / a


def saves_x_itself(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Check that every saved tensor contains x itself, not a product or a sine."""
    x = inputs[0].flatten()
    _, outputs = applied(function, inputs)
    for position, saved in enumerate(getattr(node(outputs), "saved_tensors", ())):
        if saved is None or (saved.numel() == x.numel() and bool((saved.flatten() == x).all())):
            continue
        return found(
            "oversaved",
            f"Saved tensor {position} does not contain x. This exercise allows nothing but x.",
            {"position": position, "shape": tuple(saved.shape)},
            "`forward` computes this tensor, and memory must hold it in addition to x. Save x, and "
            "compute the rest in `backward`.",
        )
    return None


def saves_the_number(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Return a finding if the dtype of a saved 0-dim tensor differs from that of x."""
    x = inputs[0].detach().reshape(-1)[:1].repeat(2).to(torch.bfloat16)
    _, outputs = applied(function, (x, *inputs[1:]))
    for saved in getattr(node(outputs), "saved_tensors", ()):
        if saved is not None and saved.ndim == 0 and saved.dtype != x.dtype:
            dtype = str(saved.dtype).removeprefix("torch.")
            return found(
                "gradient-dtype",
                "The number is saved as a tensor.",
                {},
                f"The number `a` is saved as a tensor with the dtype {dtype}. If x has no dims, "
                "the gradient gets this dtype. Store a Python number as an attribute of `ctx`.",
            )
    return None


only_x = keeps_at_most(lambda x, a: x.nbytes, "x itself")

EXERCISE = FunctionExercise(
    answer="Snake",
    points=2,
    difficulty="easy",
    minutes=10,
    section="Separate forward and setup_context",
    constraints="nothing but x is saved",
    reference=snake,
    samplers={
        "a = 1.5": lambda rng: (normal(rng, 2, 3), 1.5),
        "a slow wave": lambda rng: (normal(rng, 5), 0.3),
        "three dimensions, one of length 1": lambda rng: (normal(rng, 2, 1, 3), 1.0),
        "a single number (0-dim)": lambda rng: (normal(rng), 5.0),
    },
    suspects={
        "The sine is not squared.": lambda x, a: x + torch.sin(a * x) / a,
        "x is squared before the sine. The formula squares the sine.": lambda x, a: (
            x + torch.sin(a * x**2) / a
        ),
        "a x is squared inside the sine. The formula squares the sine.": lambda x, a: (
            x + torch.sin((a * x) ** 2) / a
        ),
        "The squared sine is not divided by a.": lambda x, a: x + torch.sin(a * x) ** 2,
        "The factor a is missing inside the sine.": lambda x, a: x + torch.sin(x) ** 2 / a,
        "The term x is missing.": lambda x, a: torch.sin(a * x) ** 2 / a,
    },
    gradient_suspects={
        "The formula has sin(2 a x). The factor 2 inside this sine is missing.": returning(
            snake, lambda x, a, g: g * (1 + torch.sin(a * x))
        ),
        "The sine is squared, as in `forward`. The derivative of sin²(t) is 2 sin(t) cos(t), which "
        "is sin(2t).": returning(snake, lambda x, a, g: g * (1 + torch.sin(a * x) ** 2)),
        "The sine was replaced by its derivative, but the square stayed. The derivative of sin²(t) "
        "is 2 sin(t) cos(t).": returning(snake, lambda x, a, g: g * (1 + torch.cos(a * x) ** 2)),
        "The derivative of sin²(t) is 2 sin(t) cos(t). Here the factor sin(a x) is missing.": (
            returning(snake, lambda x, a, g: g * (1 + 2 * torch.cos(a * x)))
        ),
        "The factor a inside the sine is missing.": returning(
            snake, lambda x, a, g: g * (1 + torch.sin(2 * x))
        ),
        "The factor a belongs only inside the sine. The inner derivative a cancels the 1/a of "
        "`forward`.": returning(snake, lambda x, a, g: g * (1 + a * torch.sin(2 * a * x))),
        "The square of the sine has the inner derivative cos(a x). It is missing here.": returning(
            snake, lambda x, a, g: g * (1 + 2 * torch.sin(a * x))
        ),
    },
    checks=(*CONDUCT, only_x, on(lambda rng: (normal(rng, *MANY), 1.5), only_x), saves_x_itself),
    causes=(saves_the_number,),
)
