"""The slopes of forward by differences, and what a slope that grows with a smaller step means."""

import math
from collections.abc import Callable

from autograd_course.visualize.functionlab.trace import Shape, Sides

STEP = 1e-5  # relative to max(1, |x|)
_FINER = 16.0  # a second step is that much smaller
_STEEP = 30.0  # slopes beyond this are looked at with both steps
_GROWS, _JUMPS = 1.5, 12.0  # a slope that grows that much: by less than _FINER, or by about that


def sides(f: Callable[[float], float], x: float) -> Sides | None:
    """Return the one-sided slopes at x, or ``None`` where one of them is no finite number.

    Where forward is smooth, a slope does not depend on the step. Across a jump it grows as 1/step;
    where a tangent is vertical, as at 0 of a square root, it grows more slowly.
    """
    step = STEP * max(1.0, abs(x))
    left, right = _slopes(f, x, step)
    if not (math.isfinite(left) and math.isfinite(right)):
        return None
    steepest = max(abs(left), abs(right))
    if steepest < _STEEP:
        return Sides(left, right)
    growth = max(map(abs, _slopes(f, x, step / _FINER))) / steepest
    shape: Shape = "jump" if growth > _JUMPS else "steep" if growth > _GROWS else "smooth"
    return Sides(left, right, shape)


def _slopes(f: Callable[[float], float], x: float, step: float) -> tuple[float, float]:
    before, here, after = f(x - step), f(x), f(x + step)
    return (here - before) / step, (after - here) / step
