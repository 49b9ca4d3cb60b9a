"""ELU from its output

1. For x > 0, the slope is 1. Elsewhere, it is alpha * exp(x). Backward has y but not x. Which x
   belong to a negative y?
2. Where x is not positive, y = alpha * exp(x) - alpha. Solve this for alpha * exp(x). The sign of y
   tells you which formula applies.
3. In setup_context, save output and store ctx.alpha. In backward, let slope = torch.where(y > 0,
   1.0, y + ctx.alpha). Return grad_output * slope, and None for alpha.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, saves_only_outputs
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import around


def elu(x: Tensor, alpha: float) -> Tensor:
    """Return ``x`` where ``x > 0``, and ``α (eˣ - 1)`` elsewhere."""
    return torch.nn.functional.elu(x, alpha)


EXERCISE = FunctionExercise(
    answer="ELU",
    points=2,
    difficulty="easy",
    minutes=8,
    section="Save what the next layer saves",
    constraints="nothing but the output is saved for backward",
    reference=elu,
    samplers={
        "alpha 1": lambda rng: (around(rng, (0.0,), 4, 6), 1.0),
        "alpha 0.3": lambda rng: (around(rng, (0.0,), 13), 0.3),
        "alpha 2": lambda rng: (around(rng, (0.0,), 3, 1, 5), 2.0),
        "a single number (0-dim)": lambda rng: (-around(rng, (0.0,)).abs(), 1.5),
    },
    checks=(*CONDUCT, saves_only_outputs),
)
