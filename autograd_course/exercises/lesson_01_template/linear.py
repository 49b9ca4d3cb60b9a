"""Linear with optional bias

1. Write down the shapes of x, weight, bias and grad_output for a batch of size 4, with 3 inputs and
   2 outputs. Which product of grad_output with one of the others has the shape of weight?
2. For a batch: grad_x = g W, grad_W = gᵀ x. forward added the bias to every row, so its gradient
   collects g from every row. More leading dimensions are just more rows: flatten them.
3. Let rows = grad_output.reshape(-1, weight.shape[0]) and flat_x = x.reshape(-1, weight.shape[1]).
   Return grad_output @ weight, rows.t() @ flat_x, and rows.sum(0). If there was no bias, which
   forward can store as ctx.has_bias, return None in its place.
"""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import returned_by


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x Wᵀ + b``."""
    return torch.nn.functional.linear(x, weight, bias)


def sums_over_no_dims(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Find a gradient of the bias that is summed over all dims, because no dims were named."""
    x, weight, bias = (torch.ones(shape, dtype=torch.float64) for shape in ((3,), (2, 3), (2,)))
    if returned_by(function, (x, weight, bias))[2].shape != ():
        return None
    return found(
        "gradient-shape",
        "The gradient of the bias is a single number.",
        {},
        "Without leading dimensions, the gradient of the bias is a single number. PyTorch's sum "
        "runs over all dims if it gets an empty list of dims. Then there is nothing to add up.",
    )


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
    accepted=("zero-size",),  # reshape(-1, n) cannot infer the rows of an empty tensor
    checks=CONDUCT,
    causes=(sums_over_no_dims,),
)
