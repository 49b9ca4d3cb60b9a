"""Symmetric matrices: an example that is one stays one, and its gradient may be shared.

A forward that takes a matrix for symmetric may read one triangle of it, as torch.linalg.cholesky
and eigh do, and differences see the whole slope there. A backward that returns half of it in either
triangle, as PyTorch's own do, is as right: along symmetric directions both say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

CLOSE = 1e-9  # relative to the largest element


def is_symmetric(value: Tensor) -> bool:
    """Whether a tensor holds symmetric matrices, and not by chance as ones and eye do."""
    if not _square(value) or not bool(value.tril(-1).any()):
        return False
    return _equal(value, value.mH) and not bool((value == value.flatten()[0]).all())


def mirrored(value: Tensor) -> Tensor:
    """Return a tensor whose upper triangles repeat its lower ones."""
    return value.tril() + value.tril(-1).mT


def shared(truth: Tensor, actual: Tensor) -> Tensor:
    """Return the true gradient in the form of the actual one.

    That is half in each triangle, where the actual gradient is symmetric and forward reads only one
    element of each pair that mirrors the other; else the truth as it is.
    """
    if truth.is_complex() or not _square(truth) or not _equal(actual, actual.mT):
        return truth
    both = (truth * truth.mT)[torch.ones_like(truth, dtype=torch.bool).tril(-1)]
    known = both[~torch.isnan(both)]
    return (truth + truth.mT) / 2 if known.numel() and not bool(known.any()) else truth


def _square(value: Tensor) -> bool:
    return value.dim() >= 2 and value.shape[-1] == value.shape[-2] > 1


def _equal(one: Tensor, other: Tensor) -> bool:
    if not one.numel():
        return True
    return bool(((one - other).abs() <= CLOSE * one.abs().max()).all())


def is_float(value: Any) -> bool:
    """Whether a value is a tensor that can carry a gradient."""
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def is_wrapped(tensor: Tensor) -> bool:
    """Whether a tensor is one that a transform of ``torch.func`` left behind: it has no memory."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


_PLAIN = (Tensor, int, float, complex, str, torch.dtype, torch.device)


def is_plain(value: Any, deepest: int = 20) -> bool:
    """Whether a value is all there is to it: no module, function or list that may hold tensors."""
    if isinstance(value, tuple | list):  # which may hold itself
        inside = deepest and all(is_plain(item, deepest - 1) for item in value)
        return bool(inside) and not any(isinstance(item, Tensor) for item in value)
    return value is None or isinstance(value, _PLAIN)


def as_tuple(returned: Any) -> tuple[Any, ...]:
    """Return a call's result as a tuple of outputs."""
    return tuple(returned) if isinstance(returned, tuple | list) else (returned,)


def same_bytes(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same values, NaN counting as equal to NaN."""
    if one.shape != other.shape or one.layout != other.layout:
        return False
    if one.layout is not torch.strided:
        one, other = one.to_dense(), other.to_dense()
    return bool(((one == other) | ((one != one) & (other != other))).all())


def changed(before: Sequence[Any], after: Sequence[Any]) -> tuple[int, ...]:
    """Return the positions of the tensors that hold other values than before."""
    return tuple(
        i
        for i, (was, now) in enumerate(zip(before, after, strict=True))
        if isinstance(was, Tensor) and not was.is_meta and not same_bytes(was, now.detach())
    )
