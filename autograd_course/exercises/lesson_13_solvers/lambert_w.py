"""A special function of SciPy

1. SciPy gives the values, and no derivative. But you have the equation that w solves: differentiate
   both sides, as the lesson does for the spring. And look at the dtype of what lambertw returns.
2. It returns complex numbers; their real parts are meant, as a tensor of the dtype and on the
   device of x. The equation gives (1 + w)·exp(w) dw = dx. Whatever backward is made of must be
   PyTorch's, and come from a tensor with a graph: w itself, the one that forward returns.
3. w = torch.as_tensor(lambertw(x.numpy(force=True)).real, dtype=x.dtype, device=x.device); save w.
   backward returns grad_output * torch.exp(-w) / (1 + w). (w / (x * (1 + w)) is the same, but 0/0
   at x = 0.)
"""

import scipy  # type: ignore[import-untyped, unused-ignore]
import torch
from torch import Tensor

from autograd_course.exercises.lesson_13_solvers._scipy import keeps_float32
from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import positive


def lambert_w(x: Tensor) -> Tensor:
    """Return the ``w`` with ``w·exp(w) = x``.

    SciPy's solution has no graph. Two of Newton's steps from it do not change its value, and carry
    its derivatives up to the third.
    """
    found = scipy.special.lambertw(x.numpy(force=True)).real
    w = torch.as_tensor(found, dtype=x.dtype, device=x.device)
    for _ in range(2):
        w = w - (w * w.exp() - x) / ((1 + w) * w.exp())
    return w


def with_zero(rng: torch.Generator) -> tuple[Tensor]:
    """Return numbers of which one is 0."""
    x = positive(rng, 4, 3)
    x[0, 0] = 0
    return (x,)


def complex_w(x: Tensor) -> Tensor:
    """Return it as SciPy does."""
    return torch.as_tensor(scipy.special.lambertw(x.numpy(force=True)))


EXERCISE = FunctionExercise(
    answer="LambertW",
    points=3,
    difficulty="medium",
    minutes=10,
    section="The whole thing, working",
    constraints="the output has the dtype of x",
    reference=lambert_w,
    samplers={
        "a 4×3 matrix": lambda rng: (2 * positive(rng, 4, 3),),
        "a matrix with a 0 in it": with_zero,
        "three axes, one of length 1": lambda rng: (positive(rng, 2, 1, 3),),
        "a single number (0-dim)": lambda rng: (positive(rng),),
    },
    suspects={
        "lambertw returns complex numbers, also where all imaginary parts are 0: take .real.": (
            complex_w
        ),
    },
    double_backward=True,
    checks=(*CONDUCT, keeps_float32),
)
