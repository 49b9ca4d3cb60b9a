"""Random noise for the Gumbel-softmax."""

from __future__ import annotations

import torch
from torch import Tensor


def gumbel_noise(like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Return standard Gumbel noise ``-log(-log u)``, where ``u`` is uniform in [0, 1).

    If ``u`` is 0, the noise is -inf, and that entry is never sampled.

    Args:
        like: A tensor with the shape, dtype and device that the noise should have.
        generator: A ``torch.Generator``. Pass one with a fixed seed to get reproducible noise.

    Returns:
        The noise.

    Example:
        >>> import torch
        >>> gumbel_noise(torch.zeros(3, 4)).shape
        torch.Size([3, 4])
    """
    u = torch.rand(like.shape, generator=generator, dtype=like.dtype, device=like.device)
    return -(-u.log()).log()
