"""Decide which errors float32 rounding can explain."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

EPS = torch.finfo(torch.float32).eps
LARGEST = torch.finfo(torch.float32).max ** 0.5  # the square of a larger number would overflow
EXCESSIVE = 50.0  # sums, products and library functions stay well below this multiple of the noise
# relative to the magnitude: no digit is correct, so the result is different, not merely inaccurate
USELESS = 0.3

Values = tuple[Tensor | None, ...]  # a call's outputs, followed by its gradients


def each(operation: Callable[..., Tensor], *values: Values) -> Values:
    """Apply an operation to the tensors at each position.

    The result is ``None`` where a tensor is missing.
    """
    return tuple(
        None if any(t is None for t in place) else operation(*place)
        for place in zip(*values, strict=True)
    )


def wide(tensor: Tensor) -> Tensor:
    """Convert a result to double precision so that results of all dtypes can be compared."""
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def alike(one: Values, other: Values) -> bool:
    """Return whether two calls returned tensors of the same shapes at the same positions."""
    shapes = [[v if v is None else v.shape for v in values] for values in (one, other)]
    return shapes[0] == shapes[1]


def distance(one: Tensor, other: Tensor) -> Tensor:
    """Return the elementwise distance between two tensors."""
    return (one - other).abs()


def peaks(values: Values) -> list[float]:
    """Return the largest magnitude in each tensor.

    It is 0 for a missing or empty tensor, and inf or nan for a tensor that contains such a number.
    """
    return [0.0 if v is None or not v.numel() else float(v.abs().max()) for v in values]


def finite(values: Values) -> bool:
    """Return whether every element of every tensor is finite."""
    return all(map(math.isfinite, peaks(values)))


def representable(values: Values) -> bool:
    """Return whether float32 can represent every element of every tensor, and its square."""
    return all(peak < LARGEST for peak in peaks(values))


def excess(error: Tensor | None, value: Tensor | None, noise: Tensor | None) -> float:
    """Return the ratio of error to noise, as the median over a tensor's elements.

    The median ignores a single element that falls on the other side of a step or a branch. Elements
    whose error and value are both 0 do not count. If not even one digit is correct, the precision
    cannot be measured, and the ratio is 0.
    """
    if error is None or value is None or noise is None:
        return 0.0
    counted = torch.isfinite(error) & ((error != 0) | (value != 0))
    error, size = error[counted], value.abs()[counted]
    if not error.numel() or float(error.median()) > USELESS * float(size.median()):
        return 0.0
    return float(torch.where(error == 0, 0.0, error / noise[counted]).median())
