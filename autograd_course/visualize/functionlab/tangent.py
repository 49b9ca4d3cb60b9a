"""A curve with the tangent that backward claims, beside the one that forward has."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from autograd_course.errors import first_line
from autograd_course.visualize.functionlab.tangent_figure import Line, drawn
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.formatting import number
from autograd_course.visualize.kit.inputs import as_callable, finite_number, title

_POINTS = 241
_STEP = 1e-5  # of a difference, relative to max(1, |x|)
_TOLERANCE = 1e-4  # relative: in float64 a central difference is good to about 1e-10
_KINK = 1e-2  # one-sided differences of a smooth function are much closer than this
_VERDICTS = {
    "agree": "✓ They agree",
    "disagree": "✗ They disagree",
    "kink": "A kink: there is no derivative here",
}


@dataclass(frozen=True)
class Tangent:
    """The slope of ``name`` at ``x`` by its backward, and by differences of its forward.

    ``left`` and ``right`` are the one-sided slopes. ``curve`` lists points of the graph.
    """

    name: str
    x: float
    y: float
    backward: float
    left: float
    right: float
    curve: tuple[tuple[float, float], ...]

    @property
    def central(self) -> float:
        """The slope by central differences, the mean of the one-sided ones."""
        return (self.left + self.right) / 2

    @property
    def verdict(self) -> str:
        """``agree``, ``disagree``, or ``kink`` where the one-sided slopes differ.

        At a kink, a backward that is neither of them nor between them still disagrees.
        """
        scale = max(1.0, abs(self.left), abs(self.right))
        low, high = sorted((self.left, self.right))
        if high - low > _KINK * scale:
            return "kink" if low - _KINK <= self.backward <= high + _KINK else "disagree"
        return "agree" if abs(self.backward - self.central) <= _TOLERANCE * scale else "disagree"

    def __repr__(self) -> str:
        head = f"{self.name} at x = {number(self.x)}: slope by backward {number(self.backward)}"
        left, right = number(_clean(self.left)), number(_clean(self.right))
        sides = f"{left} from the left, {right} from the right"
        differences = sides if self.verdict == "kink" else number(_clean(self.central))
        return f"{head}, by differences {differences}. {_VERDICTS[self.verdict]}."

    @cached_property
    def png(self) -> bytes:
        """The figure as PNG; the same bytes for the same numbers."""
        lines = (
            Line(self.central, "#00609a", f"slope by differences: {number(_clean(self.central))}"),
            Line(self.backward, "#ad4300", f"slope by backward: {number(_clean(self.backward))}"),
        )
        name, verdict = f"forward: {self.name}", _VERDICTS[self.verdict]
        return drawn(verdict, name, self.curve, (self.x, self.y), lines)

    def _repr_png_(self) -> bytes:
        return self.png


def tangent(fn: Any, x: float | Tensor, *args: Any, span: float = 3.0) -> Tangent:
    """Compare, at one point, the slope that ``backward`` returns with that of the forward curve.

    Args:
        fn: An elementwise Function class or callable, called as ``fn(x, *args)`` in float64.
        x: The point.
        args: Further arguments of ``fn``.
        span: The curve reaches from ``x - span`` to ``x + span``.

    Returns:
        Both slopes and the curve as plain data, which a notebook shows as a figure.

    Raises:
        TraceError: ``x`` is not a finite number, ``fn`` raises, or it returns another shape.

    Example:
        >>> from autograd_course.functions import Square
        >>> from autograd_course.visualize import tangent
        >>> tangent(Square, 1.5).backward
        3.0
    """
    at, reach = finite_number("x", x, 1.0), finite_number("span", span, 3.0)
    call = as_callable(fn, "tangent")
    grid = torch.linspace(at - reach, at + reach, _POINTS, dtype=torch.float64)
    step = _STEP * max(1.0, abs(at))
    near = torch.tensor([at - step, at, at + step], dtype=torch.float64)
    name = title(fn)
    before, here, after = _forward(call, near, args, name).tolist()
    curve = zip(grid.tolist(), _forward(call, grid, args, name).tolist(), strict=True)
    return Tangent(
        name=name,
        x=at,
        y=here,
        backward=_slope(call, at, args, name),
        left=(here - before) / step,
        right=(after - here) / step,
        curve=tuple(curve),
    )


def _forward(call: Callable[..., Any], x: Tensor, args: Sequence[Any], name: str) -> Tensor:
    try:
        with torch.no_grad():
            y = call(x, *args)
    except Exception as error:
        raise TraceError(f"{name} raised {type(error).__name__}: {first_line(error)}.") from error
    if not isinstance(y, Tensor) or y.is_nested or y.shape != x.shape:
        raise TraceError(f"tangent needs a function of each element; {name} changes the shape.")
    return y


def _slope(call: Callable[..., Any], at: float, args: Sequence[Any], name: str) -> float:
    x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    try:
        with torch.enable_grad():
            y = call(x, *args)
            (slope,) = torch.autograd.grad(y, x, torch.ones_like(y))
    except Exception as error:
        raise TraceError(
            f"The backward of {name} raised {type(error).__name__}: {first_line(error)}."
        ) from error
    return float(slope)


def _clean(slope: float) -> float:
    """Drop the rounding noise of a difference, so that no digit depends on the machine."""
    return round(slope, 4) if math.isfinite(slope) else slope
