"""A special function of SciPy

1. SciPy computes the values, but not their derivative. You know the equation that w solves, so
   differentiate both sides, as the lesson does for the spring. Also look at the dtype of the array
   that lambertw returns.
2. lambertw returns complex numbers. Take their real parts, and make a tensor with the dtype and the
   device of x. The equation gives (1 + w)·exp(w) dw = dx. In backward, use only PyTorch operations
   on a saved tensor that has a graph. The output w has one.
3. forward returns torch.as_tensor(array.real, dtype=x.dtype, device=x.device). setup_context saves
   the output. backward returns grad_output * torch.exp(-w) / (1 + w). (The formula
   w / (x * (1 + w)) has the same values, but it is 0/0 at x = 0.)
"""

from collections.abc import Callable, Mapping
from typing import Any

import scipy  # type: ignore[import-untyped, unused-ignore]
import torch
from torch import Tensor

from autograd_course.exercises.lesson_13_solvers._scipy import keeps_float32
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import positive
from autograd_course.grader.suspecting import mistaken


def lambert_w(x: Tensor) -> Tensor:
    """Return the solution ``w`` of ``w·exp(w) = x``.

    SciPy's solution has no graph, so this function adds two Newton steps, which do not change the
    value. With these two steps, autograd can differentiate the result up to three times.
    """
    found = scipy.special.lambertw(x.numpy(force=True)).real
    w = torch.as_tensor(found, dtype=x.dtype, device=x.device)
    for _ in range(2):
        w = w - (w * w.exp() - x) / ((1 + w) * w.exp())
    return w


def with_zero(rng: torch.Generator) -> tuple[Tensor]:
    """Return a matrix with a single 0."""
    x = positive(rng, 4, 3)
    x[0, 0] = 0
    return (x,)


def complex_w(x: Tensor) -> Tensor:
    """Return SciPy's result, which is complex."""
    return torch.as_tensor(scipy.special.lambertw(x.numpy(force=True)))


def sloped(slope: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
    """Return Lambert's W with the derivative ``slope(x, w)``."""
    return mistaken(lambert_w, lambda inputs, g: (g * slope(inputs[0], lambert_w(inputs[0])),))


LAMBERT_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "This is the derivative of x with respect to w. You need its reciprocal, because the equation "
    "gives dx = (1 + w) eʷ dw.": sloped(lambda x, w: (1 + w) * w.exp()),
    "The factor 1 / (1 + w) is missing. The product w · eʷ has two factors that change, so its "
    "derivative has two terms: eʷ + w eʷ.": sloped(lambda x, w: (-w).exp()),
    "The derivative of w · eʷ has two terms: eʷ + w eʷ. Yours has only w eʷ.": (
        sloped(lambda x, w: 1 / (w * w.exp()))
    ),
    "The factor 1 / eʷ is missing. The derivative of w · eʷ is (1 + w) eʷ.": (
        sloped(lambda x, w: 1 / (1 + w))
    ),
    "The derivative of w · eʷ is (1 + w) eʷ, a product. Yours is the sum 1 + eʷ.": (
        sloped(lambda x, w: 1 / (1 + w.exp()))
    ),
    "The exponential has the wrong sign. The derivative is 1 / ((1 + w) eʷ), and 1 / eʷ is e⁻ʷ.": (
        sloped(lambda x, w: w.exp() / (1 + w))
    ),
    "Your formula contains x where it needs w, the output.": (
        sloped(lambda x, w: (-x).exp() / (1 + x))
    ),
    "Your formula divides by 1 + x. It needs 1 + w, where w is the output.": (
        sloped(lambda x, w: (-w).exp() / (1 + x))
    ),
}


EXERCISE = FunctionExercise(
    answer="LambertW",
    points=3,
    difficulty="medium",
    minutes=10,
    section="The whole thing, working",
    needs_sections=("NumPy and SciPy inside a Function",),
    constraints="the output has the dtype of x",
    reference=lambert_w,
    samplers={
        "a 4×3 matrix": lambda rng: (2 * positive(rng, 4, 3),),
        "a matrix with a 0 in it": with_zero,
        "three dims, one of size 1": lambda rng: (positive(rng, 2, 1, 3),),
        "a single number (0-dim)": lambda rng: (positive(rng),),
    },
    suspects={
        "lambertw returns complex numbers, even if all imaginary parts are 0. So take .real.": (
            complex_w
        ),
    },
    gradient_suspects=LAMBERT_GRADIENTS,
    double_backward=True,
    checks=(*CONDUCT, keeps_float32),
)
