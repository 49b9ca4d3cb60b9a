"""Convert a finding's picture, which shows two Jacobians, to plain data and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from autograd_doctor.jacobians import Axis, Jacobians, Matrix

PICTURE = "jacobians"  # the picture's key in the evidence
_MOST = 16  # maximum number of rows and columns; a gradebook holds thousands of pictures
_LONGEST = 1 << 31  # maximum size of a tensor dimension
_DIGITS = 3  # number of significant digits; enough for the shades in a picture


def as_data(pair: Jacobians) -> dict[str, Any]:
    """Return the picture as JSON-compatible data.

    The data contains only the top-left corner of each matrix, with rounded entries.
    """
    return asdict(
        replace(
            pair,
            differences=_corner(pair.differences),
            backward=_corner(pair.backward),
            off=_corner(pair.off),
            rows=replace(pair.rows, places=pair.rows.places[:_MOST]),
            columns=replace(pair.columns, places=pair.columns.places[:_MOST]),
        )
    )


def from_data(data: Any) -> Jacobians | None:
    """Return the picture that the data describes, or ``None`` if the data is invalid."""
    if not isinstance(data, Mapping):
        return None
    try:
        pair = Jacobians(
            output=str(data["output"]),
            input=str(data["input"]),
            whole=_pair(data["whole"]),
            differences=_matrix(data["differences"]),
            backward=_matrix(data["backward"]),
            off=_matrix(data["off"]),
            rows=_axis(data["rows"]),
            columns=_axis(data["columns"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return pair if _fits(pair) else None


def _corner(matrix: Matrix) -> Matrix:
    return tuple(tuple(map(_rounded, row[:_MOST])) for row in matrix[:_MOST])


def _rounded(entry: float) -> float:
    return float(f"{entry:.{_DIGITS}g}") + 0.0  # adding 0.0 turns -0 into 0


def _pair(sizes: Any) -> tuple[int, int]:
    height, width = map(int, sizes)
    return height, width


def _matrix(rows: Any) -> Matrix:
    return tuple(tuple(map(float, row)) for row in rows)  # "nan" is stored as a string


def _axis(data: Any) -> Axis:
    shape, places = (tuple(map(int, data[key])) for key in ("shape", "places"))
    return Axis(str(data["name"]), shape, places, bool(data["pairs"]))


def _fits(pair: Jacobians) -> bool:
    """Return whether the matrices are not empty, have the same size and are within the limits."""
    sizes = {(len(m), *map(len, m)) for m in (pair.differences, pair.backward, pair.off)}
    height, *widths = next(iter(sizes))
    return (
        len(sizes) == 1
        and 0 < height <= _MOST
        and 0 < widths[0] <= _MOST
        and len(set(widths)) == 1
        and _names(pair.rows, height)
        and _names(pair.columns, widths[0])
    )


def _names(axis: Axis, count: int) -> bool:
    """Return whether an axis names ``count`` elements that exist in a tensor of its shape."""
    places = math.prod(axis.shape) * (2 if axis.pairs else 1)
    return (
        all(1 <= length <= _LONGEST for length in axis.shape)
        and len(axis.places) == count
        and all(0 <= place < places for place in axis.places)
    )
