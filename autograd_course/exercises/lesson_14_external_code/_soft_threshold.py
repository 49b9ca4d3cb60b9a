"""The soft threshold, which learners write as an operator in C++ and then as a Function."""

from torch import Tensor

SECONDS = 120.0  # compiling takes a while


def soft_threshold(x: Tensor, threshold: float) -> Tensor:
    """Return ``sign(x) · max(|x| - threshold, 0)``."""
    return x.sign() * (x.abs() - threshold).clamp(min=0)
