"""Complex product

1. Take w = i. Then forward turns z by 90° to the left. Suppose that the product should move along
   g. In which direction must z move: along g turned to the left, or along g turned to the right?
2. To the right. The gradient of z is g times the conjugate of ∂y/∂z. For a real input, only the
   real part counts.
3. Return g · w.conj() for z and g · z.conj() for w. If an input is not complex (see
   Tensor.is_complex), return only the real part of its gradient, .real.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def complex_multiply(z: Tensor, w: Tensor) -> Tensor:
    """Return ``z · w`` for two tensors of the same shape."""
    return z * w


def complex_normal(rng: torch.Generator, *shape: int) -> Tensor:
    """Return complex numbers with normally distributed real and imaginary parts."""
    return torch.complex(normal(rng, *shape), normal(rng, *shape))


EXERCISE = FunctionExercise(
    answer="ComplexMultiply",
    points=2,
    difficulty="medium",
    minutes=15,
    section="Complex numbers and the conjugate",
    constraints="a real input gets a real gradient",
    reference=complex_multiply,
    samplers={
        "two complex 2×3 matrices": lambda rng: (
            complex_normal(rng, 2, 3),
            complex_normal(rng, 2, 3),
        ),
        "a complex and a real vector": lambda rng: (complex_normal(rng, 4), normal(rng, 4)),
        "a real and a complex tensor": lambda rng: (
            normal(rng, 2, 1, 3),
            complex_normal(rng, 2, 1, 3),
        ),
        "single numbers (0-dim)": lambda rng: (complex_normal(rng), complex_normal(rng)),
    },
    checks=CONDUCT,
)
