"""Linear with optional bias

1. Write down the shapes of x, weight, bias and grad_output for a batch of size 4, with 3 inputs and
   2 outputs. Which product of grad_output with one of the others has the shape of weight?
2. For a batch: grad_x = g W, grad_W = gᵀ x. forward added the bias to every row, so its gradient
   collects g from every row. More leading dimensions are just more rows: flatten them.
3. Let rows = grad_output.reshape(-1, weight.shape[0]) and flat_x = x.reshape(-1, weight.shape[1]).
   Return grad_output @ weight, rows.t() @ flat_x, and rows.sum(0). forward can store in
   ctx.has_bias whether there is a bias. If there is none, return None in its place.
"""

from collections.abc import Callable
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import returned_by, returning


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x Wᵀ + b``."""
    return torch.nn.functional.linear(x, weight, bias)


# The shape of x, the wrong shape of the gradient for a two-element bias, and the hint
WRONG_SUMS = (
    (
        (4, 3),
        (),
        "For a batch, the gradient of the bias is a single number, so it was summed over all dims. "
        "The bias has one number for each output feature. Sum only over the rows.",
    ),
    (
        (4, 3),
        (4,),
        "For a batch, the gradient of the bias has one number for each row, so it was summed over "
        "the output features. The bias has one number for each feature. Sum over the rows.",
    ),
    (
        (3,),
        (),
        "Without leading dimensions, the gradient of the bias is a single number. PyTorch's sum "
        "runs over all dims if it gets an empty list of dims. Then there is nothing to add up.",
    ),
)


def sums_the_wrong_dims(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Find a bias gradient that is summed over all dims or over the features."""
    for shape, wrong, hint in WRONG_SUMS:
        given = (torch.ones(it, dtype=torch.float64) for it in (shape, (2, 3), (2,)))
        if returned_by(function, tuple(given))[2].shape == wrong:
            return found("gradient-shape", "The gradient of the bias has the wrong dims.", {}, hint)
    return None


def multiplies_by_weight(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Find a forward that does not transpose the weight and thus works only for square weights."""
    x, weight = square_call(inputs)
    if not torch.allclose(function.apply(x, weight, None), x @ weight):
        return None
    return found(
        "forward-raises",
        "The weight is not transposed.",
        {},
        "For a square weight, your result is x W. The formula has x Wᵀ, because each row of the "
        "weight belongs to one output.",
    )


def transposes_for_x(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Find a gradient of x that is computed with the transposed weight."""
    x, weight = square_call(inputs)
    gradient = returned_by(function, (x, weight, None))[0]
    if not torch.allclose(gradient, torch.ones_like(x) @ weight.t()):
        return None
    return found(
        "backward-raises",
        "The weight is transposed.",
        {},
        "For a square weight, your gradient of x is g Wᵀ. forward multiplies by Wᵀ, so backward "
        "multiplies by W itself. Compare the shapes of g and W.",
    )


def square_call(inputs: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """Return an input and a square weight that is not symmetric."""
    weight = torch.arange(9, dtype=torch.float64).reshape(3, 3).square()
    return inputs[0].detach().reshape(-1)[:3].repeat(2, 1) + 1, weight


def of_weight(formula: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """Return a suspect that computes the weight gradient as ``formula`` of the rows of g and x."""

    def backward(
        x: Tensor, weight: Tensor, *bias_and_g: Any
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        *bias, g = bias_and_g
        rows = g.reshape(-1, len(weight))
        of_bias = rows.sum(0) if bias and bias[0] is not None else None
        return g @ weight, formula(rows, x.reshape(-1, weight.shape[1])), of_bias

    return returning(linear, backward)


EXERCISE = FunctionExercise(
    answer="Linear",
    points=3,
    difficulty="medium",
    minutes=15,
    section="A template with an optional argument",
    reference=linear,
    samplers={
        "a batch with bias": lambda rng: (normal(rng, 4, 3), normal(rng, 2, 3), normal(rng, 2)),
        "no bias given": lambda rng: (normal(rng, 4, 3), normal(rng, 2, 3)),
        "bias=None": lambda rng: (normal(rng, 1, 3), normal(rng, 2, 3), None),
        "two leading dimensions": lambda rng: (
            normal(rng, 2, 5, 3),
            normal(rng, 4, 3),
            normal(rng, 4),
        ),
        "no leading dimension": lambda rng: (normal(rng, 3), normal(rng, 2, 3), normal(rng, 2)),
    },
    suspects={
        "The bias is missing from the result.": lambda x, weight, bias=None: linear(x, weight),
    },
    gradient_suspects={
        "For the weight, x and grad_output are summed over the rows before they are multiplied. "
        "Multiply them row by row, and then sum the products.": of_weight(
            lambda rows, x: torch.outer(rows.sum(0), x.sum(0))
        ),
        "A reshape only regroups the numbers in the order in which they are stored. It does not "
        "exchange rows and columns. Use a transpose for that.": of_weight(
            lambda rows, x: rows.t() @ x.reshape(x.shape[1], -1).t()
        ),
        "A reshape of grad_output only regroups its numbers in the order in which they are stored. "
        "Use a transpose to exchange rows and columns.": of_weight(
            lambda rows, x: rows.reshape(rows.shape[1], -1) @ x
        ),
    },
    accepted=("zero-size",),  # reshape(-1, n) cannot infer the rows of an empty tensor
    checks=CONDUCT,
    causes=(
        sums_the_wrong_dims,
        multiplies_by_weight,
        transposes_for_x,
    ),
)
