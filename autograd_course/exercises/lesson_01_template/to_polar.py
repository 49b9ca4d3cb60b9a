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

from typing import Any

import torch
from autograd_doctor import Finding
from torch import Tensor
from torch.autograd import Function

from autograd_course.grader.checks import CONDUCT
from autograd_course.grader.checks.calling import found
from autograd_course.grader.exercise import FunctionExercise
from autograd_course.grader.sampling import positive, shaped
from autograd_course.grader.suspecting import returned_by, returning


def to_polar(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``r = √(x² + y²)`` and ``θ = atan2(y, x)``."""
    return torch.hypot(x, y), torch.atan2(y, x)


def off_axis(rng: torch.Generator, *shape: int) -> Tensor:
    """Return coordinates between 0.5 and 2 or between -2 and -0.5, away from both axes."""
    sign = 2 * torch.randint(2, shape, generator=rng, device="cpu") - 1
    return sign * positive(rng, *shape)


def exchanged(x: Tensor, y: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of a backward that swaps the two upstream gradients."""
    r, of_r, of_theta = torch.hypot(x, y), second, first
    grad_x = x / r * of_r - y / r**2 * of_theta
    return grad_x, y / r * of_r + x / r**2 * of_theta


def multiplied(x: Tensor, y: Tensor, of_r: Tensor, of_theta: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of a backward that multiplies the contributions of the two paths."""
    r = torch.hypot(x, y)
    return -x / r * of_r * y / r**2 * of_theta, y / r * of_r * x / r**2 * of_theta


def divides_by_x(function: type[Function], inputs: tuple[Any, ...]) -> Finding | None:
    """Find a backward that uses the derivatives of atan(y / x), which divide by x."""
    x, y = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    if all(bool(grad.isfinite()) for grad in returned_by(function, (x, y))):
        return None
    return found(
        "non-finite",
        "The formula divides by x.",
        {},
        "On the y-axis, x is 0, and your formula divides by x. The angle changes smoothly there. "
        "Simplify its derivatives until only r² is in the denominator.",
    )


EXERCISE = FunctionExercise(
    answer="ToPolar",
    points=3,
    difficulty="medium",
    minutes=15,
    section="Several inputs, several outputs",
    reference=to_polar,
    samplers={
        **shaped(off_axis, count=2),
        "points on the y-axis": lambda rng: (torch.zeros(4, dtype=torch.float64), off_axis(rng, 4)),
    },
    suspects={
        "Output 0 is x² + y², the square of r. The square root is missing.": lambda x, y: (
            x * x + y * y,
            torch.atan2(y, x),
        ),
        "Output 1 is atan(y / x). It is the same for opposite points, because the quotient loses "
        "both signs. torch.atan2 takes both coordinates.": lambda x, y: (
            torch.hypot(x, y),
            torch.atan(y / x),
        ),
        "Output 1 is atan2(x, y). The angle starts at the x-axis, so y is the first argument.": (
            lambda x, y: (torch.hypot(x, y), torch.atan2(x, y))
        ),
    },
    gradient_suspects={
        "`backward` takes the gradient of r for that of θ, and the other way around. The upstream "
        "gradients arrive in the order in which `forward` returns the outputs.": returning(
            to_polar, exchanged
        ),
        "The contributions of the two paths are multiplied. x and y influence the loss through r "
        "and through θ, so add the two contributions.": returning(to_polar, multiplied),
    },
    checks=CONDUCT,
    causes=(divides_by_x,),
)
