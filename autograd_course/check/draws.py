"""Random tensors with a given dtype, shape and range."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

DIGITS = (0, 10)  # the default range of integers: 0 to 9


@dataclass(frozen=True)
class Draw:
    """The description of a random tensor, above ``low`` and below ``high`` if these are given.

    If ``const`` is true, the tensor is not differentiated.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    const: bool = False

    @property
    def is_float(self) -> bool:
        """Whether the tensor can carry a gradient."""
        return self.dtype.is_floating_point or self.dtype.is_complex

    def __call__(self, rng: torch.Generator) -> Tensor:
        """Draw in the widest dtype and round, so that every dtype gets the same numbers."""
        if self.dtype is torch.bool:
            return torch.randint(2, self.shape, generator=rng).bool()
        if self.dtype.is_complex:
            return torch.randn(self.shape, generator=rng, dtype=torch.complex128).to(self.dtype)
        drawn = self._floats(rng) if self.is_float else self._integers(rng)
        return drawn.to(self.dtype)

    def _integers(self, rng: torch.Generator) -> Tensor:
        low = DIGITS[0] if self.low is None else int(self.low)
        high = DIGITS[1] if self.high is None else int(self.high)
        return torch.randint(low, high, self.shape, generator=rng)

    def _floats(self, rng: torch.Generator) -> Tensor:
        if self.low is not None and self.high is not None:
            # Stay away from both ends: rounding and finite differences must not reach them.
            part = 0.01 + 0.98 * torch.rand(self.shape, generator=rng, dtype=torch.float64)
            return self.low + (self.high - self.low) * part
        z = torch.randn(self.shape, generator=rng, dtype=torch.float64)
        if self.low is not None:
            return self.low + z.exp()
        return z if self.high is None else self.high - z.exp()
