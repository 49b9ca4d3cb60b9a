"""Sampling estimators: every number of the lab's curves comes from a real run."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from autograd_doctor.extension import preserve_global_state
from torch import Tensor

from autograd_course.visualize.kit.errors import TraceError
from autograd_course.visualize.stelab.curves import Curve, drawn
from autograd_course.visualize.stelab.estimators import Estimator
from autograd_course.visualize.stelab.running import both_ways, forward
from autograd_course.visualize.stelab.trace import VIEW, WIDTHS, Estimate, LabTrace, Staircase

_FINE, _COARSE = 0.01, 5  # distance of samples; every fifth is a place where x can stand
_NEAR = 1e-6  # on both sides of a place, to see a jump there
_OFF = 1e-7  # from the middle between two samples: there, no round number's jump is met
_GRADIENT_JUMP = 0.4  # a sharp surrogate of a fine staircase changes by 0.25 between samples
_STEEP = 1e3  # a slope over ± _NEAR that can only be a jump


def capture(estimators: Sequence[Estimator], x: float) -> LabTrace:
    """Run every estimator over the view, and at ``x``.

    Raises :class:`TraceError` for what raises, is not element-wise, or has no gradient.
    """
    count = round((VIEW[1] - VIEW[0]) / _FINE)
    fine = [round(VIEW[0] + i * _FINE, 10) for i in range(count + 1)]
    between = [(i + 0.5) * _FINE + VIEW[0] + _OFF for i in range(count)]
    xs = tuple(sorted({*fine[::_COARSE], x}))
    forwards = _Forwards(_float64(xs), _float64(fine), _float64(between), [], [])
    with preserve_global_state(0):
        estimates = tuple(_estimate(each, forwards) for each in estimators)
    return LabTrace(xs, tuple(forwards.found), estimates)


@dataclass
class _Forwards:
    """The staircases found so far, each with its chords' slopes between the samples."""

    xs: Tensor
    fine: Tensor
    between: Tensor
    found: list[Staircase]
    chords: list[list[Tensor]]

    def place(self, estimator: Estimator) -> int:
        """Return the number of an estimator's staircase; alike ones are kept once."""
        values = tuple(forward(estimator, self.xs).tolist())
        curve = drawn(self.fine.tolist(), forward(estimator, self.fine).tolist())
        for i, known in enumerate(self.found):
            if (known.values, known.curve) == (values, curve):
                return i
        self.found.append(self._staircase(estimator, values, curve))
        self.chords.append([_chord(estimator, self.between, width) for width in WIDTHS])
        return len(self.found) - 1

    def _staircase(self, estimator: Estimator, values: Sequence[float], curve: Curve) -> Staircase:
        slopes = [_chord(estimator, self.xs, width).tolist() for width in WIDTHS]
        shown = [_chord(estimator, self.fine, width) for width in WIDTHS]
        shown = [torch.where(slope.abs() > _STEEP, 0.0, slope) for slope in shown]
        return Staircase(
            values=tuple(values),
            slopes=tuple(tuple(None if abs(s) > _STEEP else s for s in row) for row in slopes),
            feet=tuple(tuple(_level(estimator, self.xs - w).tolist()) for w in WIDTHS),
            climb=values[-1] - values[0],
            curve=curve,
            slope_curves=tuple(drawn(self.fine.tolist(), slope.tolist()) for slope in shown),
        )


def _estimate(estimator: Estimator, forwards: _Forwards) -> Estimate:
    staircase = forwards.place(estimator)
    gradients = both_ways(estimator, forwards.xs)[1]
    values, shown = both_ways(estimator, forwards.fine)
    between = both_ways(estimator, forwards.between)[1]
    line = torch.cat([torch.zeros(1, dtype=torch.float64), (between * _FINE).cumsum(0)])
    fine, through = forwards.fine.tolist(), line + (values - line).mean()
    return Estimate(
        name=estimator.name,
        label=estimator.label,
        formula=estimator.formula,
        source=estimator.source,
        staircase=staircase,
        gradients=tuple(gradients.tolist()),
        climb=line[-1].item(),
        gaps=tuple(_gap(between, chord) for chord in forwards.chords[staircase]),
        line=drawn(fine, through.tolist()),
        gradient_curve=drawn(fine, shown.tolist(), jump=_GRADIENT_JUMP),
    )


def _chord(estimator: Estimator, x: Tensor, width: float) -> Tensor:
    """Return the slope of the chord over ``x ± width``; at a jump its middle is taken."""
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
    """Return ``x`` as a number within the view.

    Raises :class:`TraceError` if it is none, or lies outside.
    """
    try:
        at = float(x)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        raise TraceError(f"x is one number between -3 and 3, not {x!r}.") from None
    if not VIEW[0] <= at <= VIEW[1]:
        raise TraceError(f"x is {at:.4g}, and the lab shows -3 to 3; give an x between them.")
    return at


def checked_width(width: object) -> float:
    """Return a width that was sampled.

    Raises :class:`TraceError` for another.
    """
    if not isinstance(width, int | float) or width not in WIDTHS:
        known = ", ".join(f"{each:g}" for each in WIDTHS)
        told = width if isinstance(width, int | float | str) else type(width).__name__
        raise TraceError(f"width is {told!r}; the slope is taken over x ± one of {known}.")
    return float(width)
