"""Decide which errors float32 rounding explains."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

EPS = torch.finfo(torch.float32).eps
LARGEST = torch.finfo(torch.float32).max ** 0.5  # the square of a larger number would overflow
EXCESSIVE = 50.0  # sums, products and library functions stay well below this multiple of the noise
# relative to the magnitude: no digit is right, so this is a different result, not an inaccurate one
USELESS = 0.3

Values = tuple[Tensor | None, ...]  # a call's outputs, followed by its gradients


def each(operation: Callable[..., Tensor], *values: Values) -> Values:
    """Apply an operation to tensors at the same position. Return ``None`` if one is missing."""
    return tuple(
        None if any(t is None for t in place) else operation(*place)
        for place in zip(*values, strict=True)
    )


def wide(tensor: Tensor) -> Tensor:
    """Return a result in float64, so that results of all dtypes can be compared."""
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def alike(one: Values, other: Values) -> bool:
    """Whether two calls returned tensors with the same shapes at the same positions."""
    shapes = [[v if v is None else v.shape for v in values] for values in (one, other)]
    return shapes[0] == shapes[1]


def distance(one: Tensor, other: Tensor) -> Tensor:
    """Return the distance between two tensors."""
    return (one - other).abs()


def peaks(values: Values) -> list[float]:
    """Return each tensor's largest magnitude: 0 if it is empty, inf or nan if it holds one."""
    return [0.0 if v is None or not v.numel() else float(v.abs().max()) for v in values]


def finite(values: Values) -> bool:
    """Whether every element of every tensor is a finite number."""
    return all(map(math.isfinite, peaks(values)))


def representable(values: Values) -> bool:
    """Whether float32 can represent every element of every tensor, and its square."""
    return all(peak < LARGEST for peak in peaks(values))


def excess(error: Tensor | None, value: Tensor | None, noise: Tensor | None) -> float:
    """Return the ratio of an error to the noise, as the median over a tensor's elements.

    The result is a median, because a single element may be on the other side of a step or a branch.
    Exact zeros are ignored. If not a single digit is right, the precision cannot be measured, and
    the result is 0.
    """
    if error is None or value is None or noise is None:
        return 0.0
    counted = torch.isfinite(error) & ((error != 0) | (value != 0))
    error, size = error[counted], value.abs()[counted]
    if not error.numel() or float(error.median()) > USELESS * float(size.median()):
        return 0.0
    return float(torch.where(error == 0, 0.0, error / noise[counted]).median())
