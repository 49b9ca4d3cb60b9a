"""A gradient that is a constant multiple of the truth: which constant, and of what."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import torch

from autograd_course.doctor.comparing.closeness import within
from autograd_course.doctor.comparing.mismatch import Mismatch
from autograd_course.doctor.evidence import Evidence, Expected

LARGEST_DENOMINATOR = 64
LARGEST_NUMERATOR = 1000  # of a proper fraction: beyond it every number is close to one
TELLING = 100.0  # times its tolerance: an element that is smaller has nearly any ratio
TELLING_OF_FEW_DIGITS = 10.0


def constant_factor(m: Mismatch) -> str | None:
    """A constant multiple of the truth, and which."""
    factor = _ratio(m)
    if factor is None:
        return None
    origin = _origin(m, abs(factor))
    if m.truth.numel() == 1 and not origin and _fraction(factor) is None:
        return None  # any number is a multiple of any other
    told = f"about {_apart_from_one(factor, 3)}" if m.coarse else digits(factor)
    times = f"{told} times the true gradient"
    return f"the gradient of {m.name} is {times}{origin}"


def _ratio(m: Mismatch) -> float | None:
    if m.actual.is_complex():
        return None
    known = m.known & torch.isfinite(m.actual)
    truth, actual = m.truth[known], m.actual[known]
    norm = float((truth * truth).sum())
    enough = TELLING_OF_FEW_DIGITS if m.coarse else TELLING
    telling = truth.abs() > enough * m.expected.tolerance[known]
    if norm == 0 or int(telling.sum()) < 2 <= truth.numel():
        return None
    factor = float((truth * actual).sum()) / norm
    loose = Expected(factor * m.truth, m.expected.tolerance * max(1.0, abs(factor)))
    fits = bool(within(m.actual, loose)[m.known].all())
    return factor if factor and fits and (not m.coarse or m.fits(factor * m.truth)) else None


def digits(factor: float) -> str:
    """Return a factor as a small fraction where it is one, else with four digits or more."""
    fraction = _fraction(factor)
    return _apart_from_one(factor, 4) if fraction is None else str(fraction)


def _apart_from_one(factor: float, least: int) -> str:
    """Return a factor with so many digits, or with as many more as tell it from 1."""
    told = (f"{factor:.{count}g}" for count in range(least, 17))
    return next((text for text in told if float(text) != 1.0), "1")


def _fraction(factor: float) -> Fraction | None:
    fraction = Fraction(factor).limit_denominator(LARGEST_DENOMINATOR)
    simple = fraction.denominator == 1 or abs(fraction.numerator) <= LARGEST_NUMERATOR
    return fraction if simple and math.isclose(float(fraction), factor, rel_tol=1e-6) else None


def scalars(evidence: Evidence) -> Iterator[tuple[str, float]]:
    """Yield the numbers among the arguments, with their names."""
    for i, value in enumerate(evidence.inputs):
        if type(value) in (int, float) and abs(value) < 2**63:  # beyond it an int may be no float
            yield evidence.name(i), float(value)


def _origin(m: Mismatch, size: float) -> str:
    """Say which number of this call the factor, or its inverse, is equal to."""
    for value, what in _numbers_of_the_call(m):
        if any(math.isclose(size, power, rel_tol=1e-6) for power in (value, 1 / value)):
            return f" ({digits(value)} is {what})"
    return ""


def _numbers_of_the_call(m: Mismatch) -> Iterator[tuple[float, str]]:
    for name, value in scalars(m.evidence):
        if abs(value) not in (0, 1):
            what = "value" if value > 0 else "absolute value"
            yield abs(value), f"the {what} of {name}"
    shapes = {m.name: m.input.shape, "the output": m.evidence.forward.outputs[0].shape}
    for owner, shape in shapes.items():
        for axis, length in enumerate(shape):
            if length > 1:
                yield float(length), f"the size of dim {axis} of {owner}"
                root = f"the square root of the size of dim {axis} of {owner}"
                yield math.sqrt(length), root
    for owner, shape in shapes.items():
        if shape.numel() > 1:
            yield float(shape.numel()), f"the number of elements of {owner}"
        for n in {*shape, shape.numel()} - {0, 1, 2, 3}:  # 2 and 3/2 are rather a power's factor
            yield n / (n - 1), f"N/(N-1) for N = {n}"
