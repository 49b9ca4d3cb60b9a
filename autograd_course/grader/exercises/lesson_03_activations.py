"""Lesson 03, element by element and broadcast: three activations and a product."""

import math

import torch
from torch import Tensor

from autograd_course.grader.checks import (
    backward_is_a_formula,
    keeps_at_most,
    no_tensor_on_ctx,
    without,
)
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, positive, shaped


def gelu(x: Tensor) -> Tensor:
    """Return ``x Φ(x)``, Φ the normal distribution function."""
    return 0.5 * (x + x * torch.erf(x / math.sqrt(2)))


def swish(x: Tensor) -> Tensor:
    """Return ``x σ(x)``."""
    return x * torch.sigmoid(x)


def learnable_swish(x: Tensor, beta: Tensor) -> Tensor:
    """Return ``x σ(βx)``, β a tensor of one element."""
    return x * torch.sigmoid(beta * x)


def broadcast_multiply(x: Tensor, y: Tensor) -> Tensor:
    """Return ``x · y`` for shapes that broadcast."""
    return x * y


ACTIVATIONS: tuple[FunctionExercise, ...] = (
    FunctionExercise(
        id="gelu",
        lesson="03_gradient_patterns",
        title="GELU",
        points=1,
        reference=gelu,
        samplers=shaped(normal),
        hints=(
            "x stands twice in x · Φ(x): once in front and once inside of Φ. How many terms does "
            "the product rule give?",
            "One term is Φ(x) itself, the other x · Φ'(x). Φ is the integral of the normal density "
            "φ, so no chain rule through erf is needed: Φ' = φ.",
            "With φ(x) = exp(-x²/2) / √(2π) the derivative is Φ(x) + x · φ(x). Save x, rebuild "
            "both in backward, and multiply by grad_output.",
        ),
        read='lesson 03, "Element by element"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
            without("gelu", "gelu_backward", use="torch.erf and the normal density"),
        ),
        bounds="no built-in gelu does the work",
    ),
    FunctionExercise(
        id="swish",
        lesson="03_gradient_patterns",
        title="Swish",
        points=2,
        reference=swish,
        samplers=shaped(normal),
        hints=(
            "Write the derivative down with x and σ(x), both of them. Now: which of the two can be "
            "computed from the other, at any x, without losing digits?",
            "From x you get σ(x) by one cheap operation. Back from σ(x) to x goes wrong where σ "
            "rounds to 1, and from y to x there is no way at all: two x share one y.",
            "Save x alone. In backward s = torch.sigmoid(x), and the derivative is "
            "s · (1 + x · (1 - s)).",
        ),
        read='lesson 03, "What must be saved?"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
            keeps_at_most(lambda x: x.numel() * x.element_size(), "one tensor of the size of x"),
            without("silu", "silu_backward", use="torch.sigmoid and a product"),
        ),
        bounds="no more than one tensor of the size of x is kept for backward",
    ),
    FunctionExercise(
        id="learnable-swish",
        lesson="03_gradient_patterns",
        title="Swish with a learnable β",
        points=2,
        reference=learnable_swish,
        samplers={
            "a 3×5 matrix, β without an axis": lambda rng: (normal(rng, 3, 5), positive(rng)),
            "a vector, β of shape (1,)": lambda rng: (normal(rng, 5), positive(rng, 1)),
            "three axes, a negative β": lambda rng: (normal(rng, 2, 1, 3), -positive(rng, 1)),
            "a single number (0-dim)": lambda rng: (normal(rng), positive(rng)),
        },
        hints=(
            "Two tensors go in, so two gradients come out, each of its own input's shape. β is one "
            "number, and every element of y depends on it.",
            "β was copied to every element, so its gradient is the sum, over all of them, of "
            "grad_output · ∂y/∂β. In ∂y/∂x, β appears as the inner derivative of σ(βx).",
            "With s = σ(βx): ∂y/∂x = s + βx·s(1 - s) and ∂y/∂β = x²·s(1 - s). Multiply each by "
            "grad_output, sum the second over everything, and reshape the sum to beta.shape.",
        ),
        read='lesson 03, "Broadcasting is a copy"',
        checks=(backward_is_a_formula, no_tensor_on_ctx),
        bounds="the gradient of β has the shape of β",
    ),
    FunctionExercise(
        id="broadcast-multiply",
        lesson="03_gradient_patterns",
        title="Multiply with broadcasting",
        points=3,
        reference=broadcast_multiply,
        samplers={
            "two of the same shape": lambda rng: (normal(rng, 2, 3), normal(rng, 2, 3)),
            "a 3×5 matrix and a vector": lambda rng: (normal(rng, 3, 5), normal(rng, 5)),
            "a column and a row": lambda rng: (normal(rng, 3, 1), normal(rng, 1, 4)),
            "a vector and three axes": lambda rng: (normal(rng, 4), normal(rng, 2, 3, 1)),
            "a single number (0-dim)": lambda rng: (normal(rng), normal(rng, 2, 3)),
        },
        hints=(
            "The product rule gives y · g for x, in the shape of the output. Which axes of that "
            "shape does x not have, or has with length 1? x was copied along them.",
            "Copies forward are sums backward. Two kinds of axes are to be summed: those in front "
            "that x lacks, which vanish, and those where x has length 1, which stay with length 1.",
            "Write a helper: while the gradient has more axes than x, sum over axis 0; then for "
            "every axis where x.shape has a 1, sum(axis, keepdim=True). Tensor.sum_to_size does "
            "the same. Use it on y · g for x, and on x · g for y.",
        ),
        read='lesson 03, "Broadcasting is a copy"',
        checks=(backward_is_a_formula, no_tensor_on_ctx),
        bounds="backward itself returns the shapes of the inputs",
    ),
)
