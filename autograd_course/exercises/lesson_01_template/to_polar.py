"""To polar coordinates

1. backward now receives two upstream gradients, one for r and one for θ. x influences the loss
   along two paths: through r and through θ. What happens to contributions that arrive along
   different paths?
2. They add up: grad_x = ∂r/∂x · grad_r + ∂θ/∂x · grad_theta, and the same for y. You need four
   partial derivatives. Those of atan2(y, x) are y or x divided by r², and one of them has a minus
   sign.
3. ∂r/∂x = x/r, ∂r/∂y = y/r, ∂θ/∂x = -y/r², ∂θ/∂y = x/r². Return x/r · grad_r - y/r² · grad_theta
   for x, and y/r · grad_r + x/r² · grad_theta for y.
"""

import torch
from torch import Tensor

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import positive, shaped


def to_polar(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``r = √(x² + y²)`` and ``θ = atan2(y, x)``."""
    return torch.hypot(x, y), torch.atan2(y, x)


def off_axis(rng: torch.Generator, *shape: int) -> Tensor:
    """Return coordinates between 0.5 and 2 or between -2 and -0.5, away from both axes."""
    sign = 2 * torch.randint(2, shape, generator=rng, device="cpu") - 1
    return sign * positive(rng, *shape)


EXERCISE = FunctionExercise(
    answer="ToPolar",
    points=3,
    difficulty="medium",
    minutes=15,
    section="Several inputs, several outputs",
    reference=to_polar,
    samplers=shaped(off_axis, count=2),
    checks=CONDUCT,
)
