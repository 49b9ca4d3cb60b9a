"""The sign, and the clip that three exercises use as its surrogate."""

import torch
from torch import Tensor

from autograd_course.grader.sampling import normal


def sign(x: Tensor) -> Tensor:
    """Return +1 where ``x ≥ 0``, -1 elsewhere."""
    return torch.where(x >= 0, 1.0, -1.0).to(x)


def clipped(x: Tensor) -> Tensor:
    """Return ``x`` clipped to [-1, 1]; at the bounds its gradient is 1."""
    # Not clamp alone: at its bounds PyTorch 2.13 has the gradient 1, and 2.14 has 0.
    return torch.where(x.abs() > 1, x.detach().clamp(-1, 1), x)


def with_zeros(rng: torch.Generator) -> tuple[Tensor]:
    """Return numbers of both signs, with 0, -0 and a tiny negative number in each row."""
    x = normal(rng, 2, 5)
    x[:, 1:4] = torch.tensor([0.0, -0.0, -1e-15], dtype=x.dtype)
    return (x,)
