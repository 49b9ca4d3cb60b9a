"""Rows of numbers as digits from 0 to 8, their size in parts of the largest: colors, in short."""

import math

from autograd_course.visualize.tiles.trace import Matrix

LEVELS = 8
_SHOWN = 8  # features that are drawn


def largest(values: Matrix) -> float:
    """Return the largest size of a finite element, or 1 if all are zero."""
    return max((abs(x) for row in values for x in row if math.isfinite(x)), default=0.0) or 1.0


def heat(values: Matrix, most: float | None = None, shown: int = _SHOWN) -> list[str]:
    """Write each row's first elements as digits; ``most`` is the size that has the highest one."""
    most = largest(values) if most is None else most
    return ["".join(str(_level(x, most)) for x in row[:shown]) for row in values]


def _level(value: float, most: float) -> int:
    return round(min(abs(value) / most, 1.0) * LEVELS) if math.isfinite(value) else 0
