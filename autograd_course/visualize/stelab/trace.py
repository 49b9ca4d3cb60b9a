"""The data of the STE lab, sampled from real forward and backward runs of the estimators."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from autograd_doctor.extension import preserve_global_state
from torch import Tensor

from autograd_course.engine import run_backward
from autograd_course.errors import first_line
from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.stelab.estimators import Estimator

VIEW = (-3.0, 3.0)
WIDTHS = (0.0, 0.05, 0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
Curve = tuple[tuple[float, float | None], ...]


@dataclass(frozen=True)
class Staircase:
    """The forward values of an estimator, sampled over the view.

    ``values`` contains the values at the trace's ``xs``. ``slopes[j]`` contains, for each x, the
    slope ``(q(x + w) - q(x - w)) / 2w`` of the chord from ``x - w`` to ``x + w``, where ``w =
    WIDTHS[j]``. This slope is the derivative of the staircase, averaged over uniform noise in
    ``±w``. For ``w = 0``, it is the derivative itself, or ``None`` where the staircase jumps.
    ``feet[j]`` contains the lower ends ``q(x - w)`` of these chords, and ``climb`` is the rise of
    the staircase within the view.
    """

    values: tuple[float, ...]
    slopes: tuple[tuple[float | None, ...], ...]
    feet: tuple[tuple[float, ...], ...]
    climb: float
    curve: Curve
    slope_curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Estimate:
    """The gradients of an estimator, sampled over the view.

    ``gradients`` contains the results of backward for ``grad_output`` 1 at the trace's ``xs``.
    ``line`` is their integral through the middle of the staircase, which is the function that
    backward differentiates. ``climb`` is the rise of this line within the view, and ``gaps[j]`` is
    the mean difference between the gradient and the slope of the chord with width ``WIDTHS[j]``.
    """

    name: str
    label: str
    formula: str
    source: str
    staircase: int
    gradients: tuple[float, ...]
    climb: float
    gaps: tuple[float, ...]
    line: Curve
    gradient_curve: Curve


@dataclass(frozen=True)
class LabTrace:
    """All estimators, sampled at the same positions ``xs``."""

    xs: tuple[float, ...]
    staircases: tuple[Staircase, ...]
    estimates: tuple[Estimate, ...]

    def names(self) -> tuple[str, ...]:
        """Return the estimators' names, in order."""
        return tuple(estimate.name for estimate in self.estimates)

    def staircase_of(self, estimate: Estimate) -> Staircase:
        """Return the staircase of an estimator."""
        return self.staircases[estimate.staircase]


# --------------------------------------------------------------------------------------------------
# Sampling over the view.
# --------------------------------------------------------------------------------------------------

_FINE, _COARSE = 0.01, 5  # the distance between samples; x can be at every fifth sample
_NEAR = 1e-6  # the distance on each side of a position within which a jump is detected
_OFF = 1e-7  # the offset from the middle between two samples, which avoids jumps at round numbers
_GRADIENT_JUMP = 0.4  # even a sharp surrogate of a fine staircase changes by only 0.25 per sample
_STEEP = 1e3  # a slope across ± _NEAR that only a jump can have


def capture(estimators: Sequence[Estimator], x: float) -> LabTrace:
    """Run each estimator over the view and at ``x``.

    Raises :class:`TraceError` if an estimator raises an error, is not elementwise, or has no
    gradient.
    """
    count = round((VIEW[1] - VIEW[0]) / _FINE)
    fine = [round(VIEW[0] + i * _FINE, 10) for i in range(count + 1)]
    between = [(i + 0.5) * _FINE + VIEW[0] + _OFF for i in range(count)]
    xs = tuple(sorted({*fine[::_COARSE], x}))
    staircases = _Staircases(_float64(xs), _float64(fine), _float64(between), [], [])
    with preserve_global_state(0):
        estimates = tuple(_estimate(each, staircases) for each in estimators)
    return LabTrace(xs, tuple(staircases.found), estimates)


@dataclass
class _Staircases:
    """The staircases found so far, each with the slopes of its chords between the samples."""

    xs: Tensor
    fine: Tensor
    between: Tensor
    found: list[Staircase]
    chords: list[list[Tensor]]

    def place(self, estimator: Estimator) -> int:
        """Return the index of an estimator's staircase. Equal staircases have the same index."""
        values = tuple(forward(estimator, self.xs).tolist())
        curve = points_of(self.fine.tolist(), forward(estimator, self.fine).tolist())
        for i, known in enumerate(self.found):
            if (known.values, known.curve) == (values, curve):
                return i
        self.found.append(self._staircase(estimator, values, curve))
        self.chords.append([_chord(estimator, self.between, width) for width in WIDTHS])
        return len(self.found) - 1

    def _staircase(self, estimator: Estimator, values: Sequence[float], curve: Curve) -> Staircase:
        slopes = [_chord(estimator, self.xs, width).tolist() for width in WIDTHS]
        fine = [_chord(estimator, self.fine, width) for width in WIDTHS]
        shown = [torch.where(slope.abs() > _STEEP, 0.0, slope) for slope in fine]
        return Staircase(
            values=tuple(values),
            slopes=tuple(tuple(None if abs(s) > _STEEP else s for s in row) for row in slopes),
            feet=tuple(tuple(_level(estimator, self.xs - w).tolist()) for w in WIDTHS),
            climb=values[-1] - values[0],
            curve=curve,
            slope_curves=tuple(points_of(self.fine.tolist(), slope.tolist()) for slope in shown),
        )


def _estimate(estimator: Estimator, staircases: _Staircases) -> Estimate:
    staircase = staircases.place(estimator)
    gradients = both_ways(estimator, staircases.xs)[1]
    values, shown = both_ways(estimator, staircases.fine)
    between = both_ways(estimator, staircases.between)[1]
    line = torch.cat([torch.zeros(1, dtype=torch.float64), (between * _FINE).cumsum(0)])
    fine, through = staircases.fine.tolist(), line + (values - line).mean()
    return Estimate(
        name=estimator.name,
        label=estimator.label,
        formula=estimator.formula,
        source=estimator.source,
        staircase=staircase,
        gradients=tuple(gradients.tolist()),
        climb=line[-1].item(),
        gaps=tuple(_gap(between, chord) for chord in staircases.chords[staircase]),
        line=points_of(fine, through.tolist()),
        gradient_curve=points_of(fine, shown.tolist(), jump=_GRADIENT_JUMP),
    )


def _chord(estimator: Estimator, x: Tensor, width: float) -> Tensor:
    """Return the slope of the chord over ``x ± width``. At a jump, q is the middle of the jump."""
    if width == 0:
        return (forward(estimator, x + _NEAR) - forward(estimator, x - _NEAR)) / (2 * _NEAR)
    return (_level(estimator, x + width) - _level(estimator, x - width)) / (2 * width)


def _level(estimator: Estimator, x: Tensor) -> Tensor:
    return (forward(estimator, x - _NEAR) + forward(estimator, x + _NEAR)) / 2


def _gap(gradients: Tensor, chords: Tensor) -> float:
    smooth = chords.abs() <= _STEEP
    return (gradients - chords)[smooth].abs().mean().item()


def _float64(numbers: Sequence[float]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def checked(x: object) -> float:
    """Check that ``x`` is a number in the view, and return it.

    Raises :class:`TraceError` if it is not a number or is outside the view.
    """
    try:
        at = float(x)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        raise TraceError(f"x must be a number from -3 to 3, not {x!r}.") from None
    if not VIEW[0] <= at <= VIEW[1]:
        raise TraceError(f"x is {at:.4g}, but the lab shows -3 to 3; choose an x in this range.")
    return at


def checked_width(width: object) -> float:
    """Check that ``width`` was sampled, and return it.

    Raises :class:`TraceError` for any other width.
    """
    if not isinstance(width, int | float) or width not in WIDTHS:
        known = ", ".join(f"{each:g}" for each in WIDTHS)
        told = width if isinstance(width, int | float | str) else type(width).__name__
        raise TraceError(f"width is {told!r}, but it must be one of: {known}.")
    return float(width)


# --------------------------------------------------------------------------------------------------
# Sampled functions as a few points, with gaps at the jumps.
# --------------------------------------------------------------------------------------------------

_EVERY = 5  # where a function bends gently, every n-th sample is enough
_BEND = 0.02  # if the difference between neighbors changes by more than this, every sample is kept


def points_of(xs: Sequence[float], ys: Sequence[float], jump: float = 0.2) -> Curve:
    """Return points of a curve through finite samples. If y is ``None``, the curve has a gap.

    If two neighbors differ by more than ``jump``, there is a jump between them.
    """
    points: list[tuple[float, float | None]] = []
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        jumped = i > 0 and abs(y - ys[i - 1]) > jump
        if jumped:
            points.append((round(x, 4), None))
        if jumped or _needed(i, ys):
            points.append((round(x, 4), float(f"{y:.4g}")))
    return tuple(points)


def _needed(i: int, ys: Sequence[float]) -> bool:
    """Return whether a sample is at an end, at a corner, or where the line bends."""
    if i in (0, len(ys) - 1):
        return True
    before, y, after = ys[i - 1 : i + 2]
    bend = abs(after - 2 * y + before)
    return bend > _BEND or (i % _EVERY == 0 and bend > 1e-9)


# --------------------------------------------------------------------------------------------------
# One run of an estimator, and the checks of its result.
# --------------------------------------------------------------------------------------------------

_SOME = 7  # every seventh element must give the same result if passed alone


def forward(estimator: Estimator, x: Tensor) -> Tensor:
    """Run only forward. ``x`` is a row of float64 numbers."""
    with torch.no_grad():
        return _called(estimator, x.clone()).detach()


def both_ways(estimator: Estimator, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the values of forward, and the gradients that backward returns for ``grad_output`` 1.

    Raises :class:`TraceError` if the Function raises an error, mixes its elements, or has no
    gradient.
    """
    y, gradient = _run(estimator, x)
    for whole, part in zip((y, gradient), _run(estimator, x[::_SOME]), strict=True):
        if not torch.allclose(whole[::_SOME], part):
            raise TraceError(
                f"{estimator.name} is not elementwise, because the result for an element depends "
                "on the others; the lab shows only elementwise quantizers."
            )
    return y, gradient


def _run(estimator: Estimator, x: Tensor) -> tuple[Tensor, Tensor]:
    leaf = x.clone().requires_grad_()
    y = _called(estimator, leaf)
    if not y.requires_grad:
        raise TraceError(
            f"{estimator.name} returned a tensor without a graph; return a new tensor."
        )
    return y.detach(), _gradient(estimator, y, leaf)


def _called(estimator: Estimator, x: Tensor) -> Tensor:
    try:
        y: Any = estimator.call(x)
    except Exception as error:
        raise TraceError(f"The forward of {estimator.name} raised {_sentence(error)}") from error
    if not isinstance(y, Tensor) or y.shape != x.shape:
        what = f"shape {tuple(y.shape)}" if isinstance(y, Tensor) else f"a {type(y).__name__}"
        raise TraceError(
            f"{estimator.name} is not elementwise: for shape {tuple(x.shape)} it returned {what}; "
            "the lab needs a Function that returns the shape of its input."
        )
    return _finite(estimator, "forward", y)


def _gradient(estimator: Estimator, y: Tensor, leaf: Tensor) -> Tensor:
    try:
        (gradient,) = run_backward([y], [torch.ones_like(y)], [leaf])
    except Exception as error:
        raise TraceError(f"The backward of {estimator.name} raised {_sentence(error)}") from error
    if gradient is None:
        raise TraceError(
            f"The backward of {estimator.name} returned None for its input; return a gradient, "
            "or zeros if no gradient should pass."
        )
    return _finite(estimator, "backward", gradient)


def _finite(estimator: Estimator, way: str, result: Tensor) -> Tensor:
    if not bool(result.isfinite().all()):
        raise TraceError(
            f"The {way} of {estimator.name} returned numbers that are not finite for inputs from "
            "-6 to 6; the lab can draw only finite numbers."
        )
    return result


def _sentence(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error).rstrip('.')}."
