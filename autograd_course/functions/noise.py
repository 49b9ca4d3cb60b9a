"""The noise of a Gumbel-softmax."""

from __future__ import annotations

import torch
from torch import Tensor


def gumbel_noise(like: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Return standard Gumbel noise ``-log(-log u)``, where ``u`` is uniform in [0, 1).

    If ``u`` is 0, the noise is -inf, and a sample never selects this entry.

    Args:
        like: The noise has the shape, the dtype and the device of this tensor.
        generator: PyTorch's random generator, for noise that you can repeat.

    Returns:
        The noise.

    Example:
        >>> import torch
        >>> gumbel_noise(torch.zeros(3, 4)).shape
        torch.Size([3, 4])
    """
    u = torch.rand(like.shape, generator=generator, dtype=like.dtype, device=like.device)
    return -(-u.log()).log()
