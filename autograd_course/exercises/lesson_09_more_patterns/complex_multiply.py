"""Complex product

1. Take w = i. Then forward rotates z by 90° counterclockwise. Suppose that the product should move
   along g. In which direction must z move: along g rotated counterclockwise or clockwise?
2. Along g rotated clockwise. The gradient of z is g times the conjugate of ∂y/∂z. For a real input,
   only the real part counts.
3. Return g · w.conj() for z and g · z.conj() for w. If an input is not complex (see
   Tensor.is_complex), return only the real part of its gradient, .real.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal
from autograd_course.grader.suspecting import mistaken, returned_by


def complex_multiply(z: Tensor, w: Tensor) -> Tensor:
    """Return ``z · w`` for two tensors of the same shape."""
    return z * w


def complex_normal(rng: torch.Generator, *shape: int) -> Tensor:
    """Return complex numbers whose real and imaginary parts are normally distributed."""
    return torch.complex(normal(rng, *shape), normal(rng, *shape))


def _own(own: Tensor, gradient: Tensor, real: Callable[[Tensor], Tensor] = torch.real) -> Tensor:
    return gradient if own.is_complex() or not gradient.is_complex() else real(gradient)


def _right(own: Tensor, other: Tensor, g: Tensor) -> Tensor:
    return g * other.conj()


def _real_parts(own: Tensor, other: Tensor, g: Tensor) -> Tensor:
    """Return the right gradient, but with an imaginary part of 0."""
    part = (g * other.conj()).real
    return torch.complex(part, torch.zeros_like(part))


def _real_factors(own: Tensor, other: Tensor, g: Tensor) -> Tensor:
    """Return the product of the real parts as the gradient of a real input."""
    return g * other.conj() if own.is_complex() else g.real * other.real


def with_gradients(
    gradient: Callable[[Tensor, Tensor, Tensor], Tensor],
    real: Callable[[Tensor], Tensor] = torch.real,
    only: int | None = None,
) -> Callable[..., Any]:
    """Return the product, with ``gradient(own, other, grad_output)`` as the gradient of each input.

    ``real`` converts the complex gradient of a real input to a real one. If ``only`` is the index
    of an input, the other input gets the right gradient.
    """

    def backward(inputs: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        z, w = inputs
        pairs = enumerate(((z, w), (w, z)))
        for_z, for_w = (
            _own(own, gradient(own, other, g), real)
            if only in (None, number)
            else _own(own, _right(own, other, g))
            for number, (own, other) in pairs
        )
        return for_z, for_w

    return mistaken(complex_multiply, backward)


COMPLEX_SUSPECTS: Mapping[str, Callable[..., Any]] = {
    "w is conjugated in forward. The formula has no conjugate. Only the gradients have one.": (
        lambda z, w: z * w.conj()
    ),
    "z is conjugated in forward. The formula has no conjugate. Only the gradients have one.": (
        lambda z, w: z.conj() * w
    ),
}
COMPLEX_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "You conjugate g in place of the other factor. Keep g, and multiply it by the conjugate of the "
    "other input.": with_gradients(lambda own, other, g: g.conj() * other),
    "You conjugate g and the other factor. Keep g, and conjugate only the other input.": (
        with_gradients(lambda own, other, g: g.conj() * other.conj())
    ),
    "Your gradients are real, but a complex input gets a complex gradient. Take .real only if the "
    "input is real.": with_gradients(_real_parts),
    "The gradient of z is real, but a complex z gets a complex gradient. Take .real only if z is "
    "real.": with_gradients(_real_parts, only=0),
    "The gradient of w is real, but a complex w gets a complex gradient. Take .real only if w is "
    "real.": with_gradients(_real_parts, only=1),
    "A real input gets the imaginary part of its gradient. It must get the real part.": (
        with_gradients(_right, torch.imag)
    ),
    "A real z gets the imaginary part of its gradient. It must get the real part.": (
        with_gradients(_right, torch.imag, only=0)
    ),
    "A real input gets the real part of each factor, multiplied. Multiply the complex numbers "
    "first, and then take the real part.": with_gradients(_real_factors),
    "A real z gets the real part of each factor, multiplied. Multiply the complex numbers first, "
    "and then take the real part.": with_gradients(_real_factors, only=0),
}


def asks_the_other_input(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Return a finding if each gradient is real exactly when the *other* input is real."""
    are_complex = [it.is_complex() for it in inputs]
    grads = [it.is_complex() for it in returned_by(function, inputs)]
    if are_complex == grads or grads != are_complex[::-1]:
        return None
    return found(
        "gradient-dtype",
        "The two conditions are exchanged.",
        {"complex": grads},
        "The two conditions are exchanged: each gradient is real if the other input is real. "
        "Whether a gradient is real depends on its own input.",
    )


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
    suspects=COMPLEX_SUSPECTS,
    gradient_suspects=COMPLEX_GRADIENTS,
    causes=(asks_the_other_input,),
    checks=CONDUCT,
)
