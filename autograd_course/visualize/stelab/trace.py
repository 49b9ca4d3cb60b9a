"""What the lab knows of its estimators: plain data, sampled from real forward and backward runs."""

from dataclasses import dataclass

from autograd_course.visualize.stelab.curves import Curve

VIEW = (-3.0, 3.0)
WIDTHS = (0.0, 0.05, 0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)


@dataclass(frozen=True)
class Staircase:
    """A forward over the view.

    ``values`` are those at the trace's ``xs``. ``slopes[j]`` holds, at each of them, the slope of
    the chord over ``x ± WIDTHS[j]``, ``(q(x + w) - q(x - w)) / 2w``, which is the derivative of the
    staircase blurred by uniform noise in ``±w``; for ``w = 0`` it is the derivative, ``None`` where
    the staircase jumps. ``feet[j]`` are the lower ends ``q(x - w)`` of those chords, and ``climb``
    is how far the staircase rises over the view.
    """

    values: tuple[float, ...]
    slopes: tuple[tuple[float | None, ...], ...]
    feet: tuple[tuple[float, ...], ...]
    climb: float
    curve: Curve
    slope_curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Estimate:
    """An estimator over the view.

    ``gradients`` are what backward returns for ``grad_output`` 1 at the trace's ``xs``; ``line``
    is their integral, drawn through the middle of the staircase: the function that backward
    differentiates. ``climb`` is how far that line rises over the view, and ``gaps[j]`` the mean
    distance between gradient and chord slope of width ``WIDTHS[j]``.
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
    """All estimators at the same places ``xs``."""

    xs: tuple[float, ...]
    staircases: tuple[Staircase, ...]
    estimates: tuple[Estimate, ...]

    def names(self) -> tuple[str, ...]:
        """Return the estimators' names, in order."""
        return tuple(estimate.name for estimate in self.estimates)

    def staircase_of(self, estimate: Estimate) -> Staircase:
        """Return the forward of an estimator."""
        return self.staircases[estimate.staircase]
