"""Round numbers over a range: the places of a slider."""

import math

MOST = 100  # steps of a sweep
_DIGITS = (1, 2, 2.5, 5, 10)


def positions(low: float, high: float, value: float, most: int = MOST) -> list[float]:
    """Return round, evenly spaced values, the ends, and the given value among them exactly."""
    step = _round_step((high - low) / most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    grid = {round(i * step, 10) for i in range(first, last + 1)} | {low, high}
    near = [at for at in grid if abs(at - value) > 1e-9 * max(1.0, abs(value))]
    return sorted([*near, value])


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * digit for digit in _DIGITS if power * digit >= least * (1 - 1e-9))
