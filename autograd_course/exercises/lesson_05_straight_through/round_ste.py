"""Round to a grid, straight through

1. If the derivative of the rounding is 1, what is the derivative of step · (x / step) with respect
   to x?
2. The formula divides by the step before the rounding and multiplies by it afterwards, so the two
   cancel in the derivative. backward must also return one value for each argument of forward.
3. In forward: step * torch.round(x / step). In setup_context: pass. In backward: return
   grad_output, None.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import normal


def round_to(x: Tensor, step: float) -> Tensor:
    """Return the multiple of ``step`` nearest to ``x``. Ties go to the even multiple."""
    return step * torch.round(x / step)


def unrounded(x: Tensor, step: float) -> Tensor:
    """Return ``x``, the surrogate whose derivative replaces the derivative of rounding."""
    return x.clone()


EXERCISE = FunctionExercise(
    answer="RoundSTE",
    points=2,
    difficulty="easy",
    minutes=5,
    section="Quantize to a grid",
    constraints="a number halfway between two is rounded to the even multiple, as in torch.round",
    reference=round_to,
    surrogate=unrounded,
    suspects={
        "The result is not multiplied by the step after the rounding.": (
            lambda x, step: torch.round(x / step)
        ),
        "x is not divided by the step before the rounding.": lambda x, step: step * torch.round(x),
        "The step divides and multiplies on the same side of the rounding, so it cancels. "
        "Divide before it, and multiply after it.": lambda x, step: torch.round(x),
        "The step is used the wrong way around: x is multiplied by it before the rounding, and "
        "divided by it afterwards.": lambda x, step: torch.round(x * step) / step,
        "A number halfway between two multiples is rounded up. It goes to the even multiple.": (
            lambda x, step: step * torch.floor(x / step + 0.5)
        ),
        "A number halfway between two multiples is rounded away from 0. It goes to the even "
        "multiple.": lambda x, step: step * x.sign() * torch.floor(x.abs() / step + 0.5),
        "This rounds down. The exercise asks for the nearest multiple.": (
            lambda x, step: step * torch.floor(x / step)
        ),
        "This rounds up. The exercise asks for the nearest multiple.": (
            lambda x, step: step * torch.ceil(x / step)
        ),
        "This rounds towards 0. The exercise asks for the nearest multiple.": (
            lambda x, step: step * torch.trunc(x / step)
        ),
        "This is x itself. The surrogate belongs to backward, and forward rounds.": unrounded,
    },
    samplers={
        "step 0.3": lambda rng: (normal(rng, 3, 5), 0.3),
        "step 1": lambda rng: (3 * normal(rng, 5), 1.0),
        "halves of step 0.5": lambda rng: (torch.arange(-5, 6, dtype=torch.float64) / 4, 0.5),
        "three axes, one of length 1": lambda rng: (normal(rng, 2, 1, 3), 0.1),
        "a single number (0-dim)": lambda rng: (normal(rng), 2.0),
    },
    checks=CONDUCT,
)
