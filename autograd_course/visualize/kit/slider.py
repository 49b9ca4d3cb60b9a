"""Choose the positions of a slider: round numbers in a range."""

import math
from collections.abc import Iterable

_DIGITS = (1, 2, 2.5, 5, 10)
_APART = 1e-6  # relative; a few times the rounding error of float32


def positions(low: float, high: float, value: float, most: int) -> list[float]:
    """Return round, evenly spaced values that include both ends of the range and the given value.

    There are at most ``most`` steps.
    """
    step = _round_step((high - low) / most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return among({round(i * step, 10) for i in range(first, last + 1)} | {low, high}, value)


def among(places: Iterable[float], value: float) -> list[float]:
    """Add a value to the positions. The value replaces a position that is almost equal to it."""
    apart = [at for at in places if abs(at - value) > _APART * max(1.0, abs(value))]
    return sorted([*apart, value])


def _round_step(least: float) -> float:
    """Return the smallest of …, 0.1, 0.2, 0.25, 0.5, 1, … that is at least ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * digit for digit in _DIGITS if power * digit >= least * (1 - 1e-9))
