"""Symmetric matrices: an example that is one stays one, and its gradient may be shared.

A forward that takes a matrix for symmetric may read one triangle of it, as torch.linalg.cholesky
and eigh do, and differences see the whole slope there. A backward that returns half of it in either
triangle, as PyTorch's own do, is as right: along symmetric directions both say the same.
"""

from __future__ import annotations

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
