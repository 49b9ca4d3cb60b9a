"""ELU from its output

1. For x > 0, the slope is 1. Elsewhere, it is alpha * exp(x). Backward has y but not x. Which x
   belong to a negative y?
2. Where x is not positive, y = alpha * exp(x) - alpha. Solve this for alpha * exp(x). The sign of y
   tells you which formula applies.
3. In setup_context, save output and store ctx.alpha. In backward, let slope = torch.where(y > 0,
   1.0, y + ctx.alpha). Return grad_output * slope, and None for alpha.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT, MANY, on, saves_only_outputs
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import around
from autograd_course.grader.suspecting import mistaken


def elu(x: Tensor, alpha: float) -> Tensor:
    """Return ``x`` where ``x > 0``, and ``α (eˣ - 1)`` elsewhere."""
    return torch.nn.functional.elu(x, alpha)


def sloped(slope: Callable[[Tensor, float], Tensor]) -> Callable[..., Any]:
    """Return an ELU whose gradient below 0 is ``slope(y, alpha)`` times ``grad_output``."""

    def backward(inputs: Any, g: Tensor) -> tuple[Tensor]:
        x, alpha = inputs
        return (g * torch.where(x > 0, 1.0, slope(elu(x, alpha), alpha)),)

    return mistaken(elu, backward)


ELU_SUSPECTS: Mapping[str, Callable[..., Any]] = {
    "Where x ≤ 0, your result lacks the term -alpha. Subtract 1 from the exponential inside the "
    "parentheses.": lambda x, alpha: torch.where(x > 0, x, alpha * torch.exp(x)),
    "alpha is inside the exponential. It must multiply eˣ - 1.": (
        lambda x, alpha: torch.where(x > 0, x, torch.expm1(alpha * x))
    ),
    "alpha multiplies only eˣ, not the difference eˣ - 1.": (
        lambda x, alpha: torch.where(x > 0, x, alpha * torch.exp(x) - 1)
    ),
    "Where x ≤ 0, alpha is missing.": lambda x, alpha: torch.where(x > 0, x, torch.expm1(x)),
}
ELU_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    "Your formula contains the exponential of y. The derivative is alpha · eˣ, where x is the "
    "input. Solve y = alpha · (eˣ - 1) for alpha · eˣ.": sloped(lambda y, alpha: alpha * y.exp()),
    "Where y ≤ 0, you use y itself as the derivative. The derivative is alpha · eˣ. Solve "
    "y = alpha · (eˣ - 1) for alpha · eˣ.": sloped(lambda y, alpha: y),
    "Where y ≤ 0, you use y + 1 as the derivative. This is right only for alpha = 1. Solve "
    "y = alpha · (eˣ - 1) for alpha · eˣ.": sloped(lambda y, alpha: y + 1),
    "Where y ≤ 0, you use alpha · (y + 1) as the derivative. But y already contains the factor "
    "alpha. Solve y = alpha · (eˣ - 1) for alpha · eˣ.": (sloped(lambda y, alpha: alpha * (y + 1))),
    "Where y ≤ 0, you use y - alpha as the derivative. Solve y = alpha · (eˣ - 1) for alpha · eˣ, "
    "and watch the sign.": sloped(lambda y, alpha: y - alpha),
    "Where y ≤ 0, you use alpha as the derivative. This is only the slope at 0. The exponential "
    "becomes flatter to the left.": sloped(lambda y, alpha: 0 * y + alpha),
    "The two sides are exchanged. Where y > 0, the derivative is 1.": mistaken(
        elu,
        lambda inputs, g: (
            g * torch.where(inputs[0] > 0, elu(*inputs) + inputs[1], torch.ones_like(g)),
        ),
    ),
}

EXERCISE = FunctionExercise(
    answer="ELU",
    points=2,
    difficulty="easy",
    minutes=8,
    section="Save what the next layer saves",
    constraints="nothing but the output is saved for backward",
    reference=elu,
    samplers={
        # This exposes a mistake with alpha that alpha 1 would hide.
        "alpha 0.3": lambda rng: (around(rng, (0.0,), 13), 0.3),
        "alpha 1": lambda rng: (around(rng, (0.0,), 4, 6), 1.0),
        "alpha 2": lambda rng: (around(rng, (0.0,), 3, 1, 5), 2.0),
        "a single number (0-dim)": lambda rng: (-around(rng, (0.0,)).abs(), 1.5),
    },
    suspects=ELU_SUSPECTS,
    gradient_suspects=ELU_GRADIENTS,
    checks=(
        *CONDUCT,
        saves_only_outputs,
        on(lambda rng: (around(rng, (0.0,), *MANY), 0.3), saves_only_outputs),
    ),
)
