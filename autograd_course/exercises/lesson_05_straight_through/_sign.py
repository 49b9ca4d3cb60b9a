"""The sign function, and the clip that three exercises use as its surrogate."""

from collections.abc import Callable

import torch
from torch import Tensor

from autograd_course.grader.sampling import normal


def sign(x: Tensor) -> Tensor:
    """Return +1 where ``x ≥ 0``, and -1 elsewhere."""
    return torch.where(x >= 0, 1.0, -1.0).to(x)


SIGN_SUSPECTS: dict[str, Callable[[Tensor], Tensor]] = {
    "The sign of 0 is 0 here, as torch.sign gives it. In this exercise it is +1.": torch.sign,
    "The sign of 0 is -1 here. In this exercise it is +1, so the comparison includes 0.": (
        lambda x: torch.where(x > 0, 1.0, -1.0).to(x)
    ),
    "-0 counts as a negative number here. It is equal to 0, so its sign is +1.": (
        lambda x: torch.where(torch.signbit(x), -1.0, 1.0).to(x)
    ),
    "At 0, the result is nan. x / |x| is 0/0 there.": lambda x: x / x.abs(),
    "A negative number close to 0 counts as 0 here. Compare x with 0 itself.": (
        lambda x: torch.where(x >= -1e-14, 1.0, -1.0).to(x)
    ),
    "These are 1 and 0. The sign of a negative number is -1.": lambda x: (x >= 0).to(x),
    "The two signs are exchanged.": lambda x: -sign(x),
}


def clipped(x: Tensor) -> Tensor:
    """Return ``x`` clipped to [-1, 1]. At the bounds, the gradient is 1."""
    # clamp alone is not enough: at its bounds the gradient is 1 in PyTorch 2.13 and 0 in 2.14.
    return torch.where(x.abs() > 1, x.detach().clamp(-1, 1), x)


def with_zeros(rng: torch.Generator) -> tuple[Tensor]:
    """Return numbers of both signs, with 0, -0 and a tiny negative number in each row."""
    x = normal(rng, 2, 5)
    x[:, 1:4] = torch.tensor([0.0, -0.0, -1e-15], dtype=x.dtype)
    return (x,)
