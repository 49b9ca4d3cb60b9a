"""The soft threshold, which learners write first as a C++ operator and then as a Function."""

from torch import Tensor

SECONDS = 120.0  # compiling takes a while


def soft_threshold(x: Tensor, threshold: float) -> Tensor:
    """Return ``sign(x) · max(|x| - threshold, 0)``."""
    return x.sign() * (x.abs() - threshold).clamp(min=0)
