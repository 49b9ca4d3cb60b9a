"""A gradient that is a constant multiple of the truth: which constant, and of what."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import torch

from autograd_course.doctor.comparing.closeness import within
from autograd_course.doctor.comparing.mismatch import Mismatch
from autograd_course.doctor.evidence import Evidence, Expected

LARGEST_DENOMINATOR = 64
LARGEST_NUMERATOR = 1000  # of a proper fraction: beyond it every number is close to one
TELLING = 100.0  # times its tolerance: an element that is smaller has nearly any ratio
TELLING_OF_FEW_DIGITS = 10.0

Key = tuple[str, str, int]  # what a number of a call is: its kind, of what, along which axis


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
    return f"the gradient of `{m.name}` is {times}{origin}"


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
    """Say which number of this call the factor, or its inverse, is equal to.

    A number that explains the factor in this call alone does so by chance, and is not named.
    """
    output = m.evidence.forward.outputs[0].shape
    for key, value, what in _numbers(dict(scalars(m.evidence)), m.name, m.input.shape, output):
        for power in (1, -1):
            if math.isclose(size, value**power, rel_tol=1e-6) and _holds(m, key, value, power):
                return f" ({digits(value)} is {what})"
    return ""


def _holds(m: Mismatch, key: Key, value: float, power: int) -> bool:
    """Whether a number explains the factor in all calls that were tried, one of which tells.

    An argument's value tells where it is another one, a length where the shapes are.
    """
    here, tells = (tuple(m.input.shape), tuple(m.evidence.forward.outputs[0].shape)), False
    for other in m.evidence.resized:
        ratio, shape = other.ratios[m.slot], other.shapes[m.position]
        if ratio is None or shape is None:
            continue
        known = {
            m.evidence.name(i): number
            for i, number in enumerate(other.numbers)
            if number is not None
        }
        there = {k: v for k, v, _ in _numbers(known, m.name, shape, other.output)}
        if key not in there or not math.isclose(abs(ratio), there[key] ** power, rel_tol=1e-4):
            return False
        differs = there[key] != value if key[0] == "value" else (shape, other.output) != here
        tells = tells or differs
    return tells


def _numbers(
    known: Mapping[str, float], name: str, shape: Sequence[int], output: Sequence[int]
) -> Iterator[tuple[Key, float, str]]:
    """Yield the numbers of a call that may be a factor: what each is, its value, and in words."""
    for argument, value in known.items():
        if abs(value) not in (0, 1):
            what = "value" if value > 0 else "absolute value"
            yield ("value", argument, 0), abs(value), f"the {what} of `{argument}`"
    owners = {f"`{name}`": shape, "the output": output}
    for owner, lengths in owners.items():
        for axis, n in enumerate(lengths):
            if n > 1:
                told = f"the size of dim {axis} of {owner}"
                yield ("length", owner, axis), float(n), told
                yield ("root", owner, axis), math.sqrt(n), f"the square root of {told}"
    for owner, lengths in owners.items():
        count = math.prod(lengths)
        if count > 1:
            yield ("count", owner, 0), float(count), f"the number of elements of {owner}"
        for axis, n in enumerate((*lengths, count)):
            if n > 1:
                yield ("unbiased", owner, axis), n / (n - 1), f"N/(N-1) for N = {n}"
