"""Check the arguments of an attention call, and derive the values that all versions need."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class How:
    """The settings of an attention call. ``scale`` is ``1/√E`` by default."""

    causal: bool
    scale: float
    dropout_p: float
    seed: int
    block: tuple[int, int] | None = None

    @property
    def kept(self) -> float:
        """Return the factor ``1 / (1 - p)`` for a weight that dropout keeps."""
        return 1 / (1 - self.dropout_p)


def how(
    q: Tensor,
    causal: bool,
    scale: float | None,
    dropout_p: float,
    seed: int,
    block: tuple[int, int] | None = None,
) -> How:
    """Check the settings and fill in the default scale."""
    if not 0 <= dropout_p < 1:
        raise ValueError(f"dropout_p is a probability from 0 to below 1, got {dropout_p}")
    if block is not None and min(block) < 1:
        raise ValueError(f"a block has at least one query and one key, got {tuple(block)}")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return How(causal, scale, dropout_p, seed, block)


def fitting(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> None:
    """Raise ``ValueError`` unless the shapes, dtypes and devices of the tensors match."""
    kinds = {(x.dtype, x.device) for x in (q, k, v)}
    if len(kinds) > 1 or not q.dtype.is_floating_point:
        found = ", ".join(f"{n} {x.dtype} on {x.device}" for n, x in _named(q, k, v))
        raise ValueError(f"attention needs one real floating dtype and one device, got {found}")
    shapes = " ".join(f"{n} {tuple(x.shape)}" for n, x in _named(q, k, v))
    if min(q.dim(), k.dim(), v.dim()) < 2 or q.shape[-1] != k.shape[-1] or not q.shape[-1]:
        raise ValueError(f"attention needs q (N, E) and k (M, E), E > 0, got {shapes}")
    if k.shape[:-1] != v.shape[:-1]:
        raise ValueError(f"every key needs one value: k (..., M, E), v (..., M, F), got {shapes}")
    if q.shape[:-3] != k.shape[:-3] or q.dim() != k.dim() or not _groups_fit(q, k):
        raise ValueError(
            "q needs the leading axes of k and v, or a multiple of their heads (axis -3), "
            f"got {shapes}"
        )
    if mask is not None:
        _mask_fits(mask, (*q.shape[:-1], k.shape[-2]))


def _named(q: Tensor, k: Tensor, v: Tensor) -> tuple[tuple[str, Tensor], ...]:
    return ("q", q), ("k", k), ("v", v)


def _groups_fit(q: Tensor, k: Tensor) -> bool:
    if q.dim() < 3:
        return True
    return q.shape[-3] == k.shape[-3] or (k.shape[-3] > 0 and q.shape[-3] % k.shape[-3] == 0)


def _mask_fits(mask: Tensor, whole: Sequence[int]) -> None:
    if mask.dtype != torch.bool and not mask.dtype.is_floating_point:
        raise ValueError(f"a mask is boolean (True = attend) or floating, got {mask.dtype}")
    pairs = zip(reversed(mask.shape), reversed(whole), strict=False)
    if mask.dim() > len(whole) or any(size not in (1, wanted) for size, wanted in pairs):
        raise ValueError(f"a mask must broadcast to {tuple(whole)}, got {tuple(mask.shape)}")


def groups(q: Tensor, k: Tensor) -> int:
    """Return the number of query heads that share each head of keys and values."""
    return q.shape[-3] // k.shape[-3] if q.dim() > 2 and k.shape[-3] else 1


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return the computation dtype. Sums over keys need more than 16-bit precision."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def finite(shift: Tensor) -> Tensor:
    """Replace ``-∞`` in ``shift`` with 0. In a row without keys, ``-∞ - (-∞)`` would be nan."""
    return torch.where(shift == -math.inf, 0, shift)


def normalized(mixed: Tensor, total: Tensor) -> Tensor:
    """Divide by the sum of the weights. If the sum is 0, the result is 0."""
    return mixed / torch.where(total == 0, 1, total)
