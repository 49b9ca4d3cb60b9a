"""The range of an axis: what is usual is seen, a pole does not flatten all the rest."""

import math
from collections.abc import Iterable

from autograd_course.visualize.functionlab.subject import Range

_TAIL = 0.03  # of the values at each end may leave the plot
_BEYOND = 0.4  # if they lie farther out than this, in parts of the others' spread
_ROOM = 0.08
_NOISE = 1e-6  # relative: values that differ by less are equal, and rounding is not magnified
_LEAST = 0.4  # of the present range that must be used, else it is chosen anew


def extent(
    values: Iterable[float | None], present: Range | None = None, zero: bool = False
) -> Range:
    """Return a range for the values, or the present one if they still fill it well.

    ``zero`` says that 0 is to be seen, too.

    An axis that fits itself to every curve would show a gain of 2 as no change at all.
    """
    finite = sorted(v for v in values if v is not None and math.isfinite(v))
    if not finite:
        return present or (-1.0, 1.0)
    cut = int(_TAIL * len(finite))
    inner_low, inner_high = finite[cut], finite[-1 - cut]
    beyond = _BEYOND * (inner_high - inner_low)
    low, high = max(finite[0], inner_low - beyond), min(finite[-1], inner_high + beyond)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    fits = present and present[0] <= low and high <= present[1]
    if present and fits and high - low >= _LEAST * (present[1] - present[0]):
        return present
    flat = high - low <= _NOISE * max(abs(low), abs(high))
    room = max(1.0, abs(high)) if flat else _ROOM * (high - low)
    return low - room, high + room
