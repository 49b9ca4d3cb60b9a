"""A gradient that is a constant multiple of the truth: which constant, and of what."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from autograd_course.doctor.evidence import Expected
from autograd_course.doctor.mismatch import Mismatch, within

SMALL_FRACTIONS = {
    2.0: "2",
    0.5: "1/2",
    3.0: "3",
    1 / 3: "1/3",
    4.0: "4",
    0.25: "1/4",
    math.pi: "π",
}


def constant_factor(m: Mismatch) -> str | None:
    """A constant multiple of the truth, and which."""
    factor = _ratio(m)
    if factor is None:
        return None
    return f"the gradient of {m.name} is {_factor_name(m, factor)} times the true one, everywhere"


def _ratio(m: Mismatch) -> float | None:
    if m.actual.is_complex():
        return None
    known = m.known & torch.isfinite(m.actual)
    truth, actual = m.truth[known], m.actual[known]
    norm = float((truth * truth).sum())
    if norm == 0 or int((truth.abs() > m.expected.tolerance[known]).sum()) < 2 <= truth.numel():
        return None
    factor = float((truth * actual).sum()) / norm
    loose = Expected(factor * m.truth, m.expected.tolerance * max(1.0, abs(factor)))
    return factor if factor and bool(within(m.actual, loose)[m.known].all()) else None


def _factor_name(m: Mismatch, factor: float) -> str:
    """Say what the factor is: a length, a scalar argument, a small fraction, else its digits."""
    size = abs(factor)
    sign = "-" if factor < 0 else ""
    for value, name in _named_numbers(m):
        for power, text in ((1, "{0}"), (-1, "1/({0})" if " " in name else "1/{0}")):
            if math.isclose(size, value**power, rel_tol=1e-6):
                return sign + text.format(name)
    return f"{factor:.4g}"


def _named_numbers(m: Mismatch) -> Iterator[tuple[float, str]]:
    for i, value in enumerate(m.evidence.inputs):
        if isinstance(value, int | float) and not isinstance(value, bool) and value not in (0, 1):
            yield abs(float(value)), f"{m.evidence.name(i)} ({value:g})"
    shapes = [(m.name, m.input.shape)] + [
        ("the output", o.shape) for o in m.evidence.forward.outputs
    ]
    for owner, shape in shapes:
        for axis, length in enumerate(shape):
            if length > 1:
                yield float(length), f"{length} (the length of axis {axis} of {owner})"
    for owner, shape in shapes:
        count = shape.numel()
        if count > 1:
            yield float(count), f"{count} (the number of elements of {owner})"
            yield count / (count - 1), f"{count}/{count - 1} (N/(N-1))"
        for length in shape:
            if length > 1:
                yield length / (length - 1), f"{length}/{length - 1} (N/(N-1))"
    yield from SMALL_FRACTIONS.items()
