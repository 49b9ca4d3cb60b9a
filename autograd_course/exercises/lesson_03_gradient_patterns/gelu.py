"""GELU

1. x occurs twice in x · Φ(x), in front of Φ and inside it. How many terms does the product rule
   give?
2. One term is Φ(x) itself, and the other is x · Φ'(x). Φ is the integral of the normal density φ,
   so you need no chain rule through erf: Φ' = φ.
3. With φ(x) = exp(-x²/2) / √(2π), the derivative is Φ(x) + x · φ(x). Save x, recompute both in
   backward, and multiply by grad_output.
"""

import math

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, without
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal, shaped


def gelu(x: Tensor) -> Tensor:
    """Return ``x Φ(x)``, where Φ is the standard normal cumulative distribution function."""
    return 0.5 * (x + x * torch.erf(x / math.sqrt(2)))


EXERCISE = FunctionExercise(
    answer="GELU",
    points=1,
    difficulty="easy",
    minutes=9,
    optional=True,
    section="Elementwise functions",
    constraints="no built-in gelu does the work",
    reference=gelu,
    samplers=shaped(normal),
    suspects={
        "erf gets x itself. Φ(x) needs erf(x / √2).": lambda x: 0.5 * x * (1 + torch.erf(x)),
        "The factor ½ of Φ is missing.": lambda x: x * (1 + torch.erf(x / math.sqrt(2))),
        "The 1 in front of erf is missing.": lambda x: 0.5 * x * torch.erf(x / math.sqrt(2)),
        "This is Φ(x). The factor x is missing.": lambda x: 0.5 * (1 + torch.erf(x / math.sqrt(2))),
        "This is the approximation by tanh. The exercise asks for the exact function.": lambda x: (
            0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        ),
    },
    checks=(
        *CONDUCT,
        without("gelu", "gelu_backward", use="torch.erf and the normal density"),
    ),
)
