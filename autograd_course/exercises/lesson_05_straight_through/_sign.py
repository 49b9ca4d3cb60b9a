"""The sign, which two exercises give different gradients."""

import torch
from torch import Tensor

from autograd_course.grader.sampling import normal


def sign(x: Tensor) -> Tensor:
    """Return +1 where ``x ≥ 0``, -1 elsewhere."""
    return torch.where(x >= 0, 1.0, -1.0).to(x)


def with_zeros(rng: torch.Generator) -> tuple[Tensor]:
    """Return numbers of both signs, in each row both zeros and a number next to nothing."""
    x = normal(rng, 2, 5)
    x[:, 1:4] = torch.tensor([0.0, -0.0, -1e-15], dtype=x.dtype)
    return (x,)
