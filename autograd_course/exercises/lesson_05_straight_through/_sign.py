"""The sign function, and the clip that three exercises use as its surrogate."""

import torch
from torch import Tensor

from autograd_course.grader.sampling import normal


def sign(x: Tensor) -> Tensor:
    """Return +1 where ``x ≥ 0``, and -1 elsewhere."""
    return torch.where(x >= 0, 1.0, -1.0).to(x)


def clipped(x: Tensor) -> Tensor:
    """Return ``x`` clipped to [-1, 1]. At the bounds, the gradient is 1."""
    # clamp alone is not enough: at its bounds the gradient is 1 in PyTorch 2.13 and 0 in 2.14.
    return torch.where(x.abs() > 1, x.detach().clamp(-1, 1), x)


def with_zeros(rng: torch.Generator) -> tuple[Tensor]:
    """Return numbers of both signs, with 0, -0 and a tiny negative number in each row."""
    x = normal(rng, 2, 5)
    x[:, 1:4] = torch.tensor([0.0, -0.0, -1e-15], dtype=x.dtype)
    return (x,)
