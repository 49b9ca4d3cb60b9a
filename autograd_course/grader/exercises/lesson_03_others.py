"""Lesson 03, the last two patterns: complex numbers, and a gradient that is not the derivative."""

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.errors import first_line
from autograd_course.grader.checks import (
    backward_is_a_formula,
    no_tensor_on_ctx,
)
from autograd_course.grader.checks.calling import applied, found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def complex_multiply(z: Tensor, w: Tensor) -> Tensor:
    """Return ``z · w`` for two complex tensors of one shape."""
    return z * w


def unchanged(x: Tensor, strength: float) -> Tensor:
    """Return a copy of ``x``."""
    return x.clone()


def reversed_gradient(x: Tensor, strength: float) -> Tensor:
    """Return ``-strength · x``, whose derivative is what a gradient reversal hands back."""
    return -strength * x


def complex_normal(rng: torch.Generator, *shape: int) -> Tensor:
    """Return complex numbers with normal real and imaginary parts."""
    return torch.complex(normal(rng, *shape), normal(rng, *shape))


def may_be_changed(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Ask that a layer with ``inplace=True`` may follow."""
    (output,) = applied(function, inputs)[1]
    try:
        output.mul_(2)
    except RuntimeError as error:
        return found(
            "returns-view",
            f"right, but a layer behind it that works in place raises: {first_line(error)}",
            {},
            "A view of a copy is a view as well. Return the copy itself.",
        )
    return None


OTHERS: tuple[FunctionExercise, ...] = (
    FunctionExercise(
        id="complex-multiply",
        lesson="03_gradient_patterns",
        title="Complex product",
        points=2,
        reference=complex_multiply,
        samplers={
            "two complex 2×3 matrices": lambda rng: (
                complex_normal(rng, 2, 3),
                complex_normal(rng, 2, 3),
            ),
            "a complex and a real vector": lambda rng: (complex_normal(rng, 4), normal(rng, 4)),
            "a real and a complex one": lambda rng: (
                normal(rng, 2, 1, 3),
                complex_normal(rng, 2, 1, 3),
            ),
            "single numbers (0-dim)": lambda rng: (complex_normal(rng), complex_normal(rng)),
        },
        hints=(
            "Take w = i: forward turns z by a quarter to the left. When the loss wants the product "
            "to move along g, which way must z move: g turned left once more, or turned back?",
            "Back: PyTorch's gradient for z is g times the conjugate of ∂y/∂z. And where an input "
            "is real, only the real part of that means anything for it.",
            "Return g · w.conj() for z and g · z.conj() for w; take .real of a gradient whose "
            "input is not complex (Tensor.is_complex tells).",
        ),
        read='lesson 03, "Complex numbers and the conjugate"',
        checks=(
            backward_is_a_formula,
            no_tensor_on_ctx,
        ),
        bounds="a real input gets a real gradient",
    ),
    FunctionExercise(
        id="gradient-reversal",
        lesson="03_gradient_patterns",
        title="Gradient reversal",
        points=2,
        reference=unchanged,
        surrogate=reversed_gradient,
        samplers={
            "a 3×5 matrix, strength 0.5": lambda rng: (normal(rng, 3, 5), 0.5),
            "a vector, strength 1": lambda rng: (normal(rng, 4), 1.0),
            "three axes, strength 3": lambda rng: (normal(rng, 2, 1, 3), 3.0),
            "a single number (0-dim)": lambda rng: (normal(rng), 0.1),
        },
        hints=(
            "Forward has nothing to compute and backward no formula to derive: the gradient is "
            "declared. What must forward still hand out, so that a layer after it may write into "
            "its input?",
            "A tensor of its own, with the same values. The strength is a number, so it stays on "
            "ctx, and backward turns and scales what arrives.",
            "In forward keep ctx.strength and return x.clone(); return -ctx.strength · grad_output "
            "and None from backward.",
        ),
        read='lesson 03, "A gradient of your own"',
        asked=("returns-view",),
        checks=(backward_is_a_formula, no_tensor_on_ctx, may_be_changed),
        bounds="forward returns a tensor of its own, neither x nor a view of it",
    ),
)
