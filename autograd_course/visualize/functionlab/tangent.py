"""Draw a curve with two tangents, whose slopes come from backward and finite differences."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

from autograd_course.engine import run_backward
from autograd_course.errors import first_line
from autograd_course.visualize.functionlab.trace import STEP, compare_slopes
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.kit.figure import (
    FAINT,
    GRADIENT,
    INK,
    PAPER,
    VALUE,
    plain_frame,
    small_png,
)
from autograd_course.visualize.kit.formatting import number
from autograd_course.visualize.kit.inputs import as_callable, finite_number, title

_POINTS = 241
_LENGTH = 0.55  # the length of a tangent, relative to half of the curve's range
_VERDICTS = {
    "agree": "✓ They agree",
    "disagree": "✗ They differ",
    "kink": "The curve has a kink here, so it has no derivative",
}


@dataclass(frozen=True)
class Tangent:
    """The slope of the function ``name`` at ``x``, from its backward and from finite differences.

    ``left`` and ``right`` are the one-sided slopes. ``curve`` contains points on the graph.
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
        """The slope from central differences, which is the mean of the two one-sided slopes."""
        return (self.left + self.right) / 2

    @property
    def verdict(self) -> str:
        """The verdict: ``agree``, ``disagree``, or ``kink`` if the one-sided slopes differ.

        At a kink, the verdict is ``disagree`` if the slope from backward is not between the
        one-sided slopes.
        """
        compared = compare_slopes(self.backward, self.left, self.right)
        return "disagree" if compared == "differ" else compared

    def __repr__(self) -> str:
        head = f"{self.name} at x = {number(self.x)}: slope {number(self.backward)} from backward"
        left, right = number(_clean(self.left)), number(_clean(self.right))
        sides = f"{left} on the left and {right} on the right"
        differences = sides if self.verdict == "kink" else number(_clean(self.central))
        return f"{head}, {differences} from finite differences. {_VERDICTS[self.verdict]}."

    @cached_property
    def png(self) -> bytes:
        """The figure as PNG. The same numbers always give the same bytes."""
        figure = Figure(figsize=(5.6, 3.4), dpi=110, facecolor=PAPER, layout="constrained")
        axes = figure.add_subplot(facecolor=PAPER)
        xs, ys = zip(*self.curve, strict=True)
        axes.plot(xs, ys, color=INK, linewidth=2, label=f"forward: {self.name}")
        reach = _LENGTH * (xs[-1] - self.x)
        # The first line is wide and pale, and the second is narrow and dashed, so that both are
        # visible when they agree.
        broad: Any = {"color": VALUE, "linestyle": "-", "linewidth": 6.0, "alpha": 0.45}
        dashed: Any = {"color": GRADIENT, "linestyle": (0, (5, 2)), "linewidth": 2.2}
        tangents = (
            ("finite differences", self.central, broad),
            ("backward", self.backward, dashed),
        )
        for by, slope, look in tangents:
            ends = [self.y - slope * reach, self.y + slope * reach]
            label = f"slope from {by}: {number(_clean(slope))}"
            axes.plot([self.x - reach, self.x + reach], ends, label=label, **look)
        axes.plot([self.x], [self.y], "o", color=INK, markersize=7, zorder=5)
        finite = [y for y in ys if math.isfinite(y)] or [0.0]
        low, high = min(finite), max(finite)
        room = 0.15 * (high - low) or 1.0
        axes.set(ylim=(low - room, high + room), xlabel="x")
        plain_frame(axes)
        axes.set_title(_VERDICTS[self.verdict], loc="left", color=INK, fontsize=11)
        axes.legend(fontsize=9, framealpha=0.9, edgecolor=FAINT)
        return small_png(figure)

    def _repr_png_(self) -> bytes:
        return self.png


def tangent(fn: Any, x: float | Tensor, *args: Any, span: float = 3.0) -> Tangent:
    """Compare the slope from ``backward`` with the slope of the forward curve at one point.

    Args:
        fn: An elementwise Function class or callable, called as ``fn(x, *args)`` in float64.
        x: The point at which the slopes are compared.
        args: Further arguments to ``fn``.
        span: The curve goes from ``x - span`` to ``x + span``.

    Returns:
        Both slopes and the curve as plain data. A notebook displays them as a figure.

    Raises:
        TraceError: ``x`` is not a finite number, ``fn`` raises an error, or its result has a
            different shape.

    Example:
        >>> from autograd_course.functions import Square
        >>> from autograd_course.visualize import tangent
        >>> tangent(Square, 1.5).backward
        3.0
    """
    at, reach = finite_number("x", x, 1.0), finite_number("span", span, 3.0)
    call = as_callable(fn, "tangent")
    name = title(fn)
    grid = torch.linspace(at - reach, at + reach, _POINTS, dtype=torch.float64)
    step = STEP * max(1.0, abs(at))
    near = torch.tensor([at - step, at, at + step], dtype=torch.float64)
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
        raise TraceError(f"tangent needs an elementwise function, but {name} changes the shape.")
    return y


def _slope(call: Callable[..., Any], at: float, args: Sequence[Any], name: str) -> float:
    x = torch.tensor(at, dtype=torch.float64, requires_grad=True)
    try:
        with torch.enable_grad():
            y = call(x, *args)
            (slope,) = run_backward([y], [torch.ones_like(y)], [x], allow_unused=False)
    except Exception as error:
        raise TraceError(
            f"The backward of {name} raised {type(error).__name__}: {first_line(error)}."
        ) from error
    return float(slope)  # type: ignore[arg-type]


def _clean(slope: float) -> float:
    """Round a finite difference, because its rounding noise differs between machines."""
    return round(slope, 4) if math.isfinite(slope) else slope
