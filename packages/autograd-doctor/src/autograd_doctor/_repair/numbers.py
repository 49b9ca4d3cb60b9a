"""Compute the number that an expression in backward should equal, and find a formula for it.

This module handles expressions whose value is a single Python number, such as ``1 - ctx.eps`` or
the count in ``grad / target.numel()``. ``backward`` runs three times: with the number, with twice
the number, and with three times the number. If the gradients depend linearly on the number or on
its inverse, these runs determine the number that would correct the gradients. The search then
compares this number with sums, products and quotients of the numbers that ``backward`` can access.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._numerics.finite_differences import as_real
from autograd_doctor._numerics.tensors import is_number
from autograd_doctor._repair.edits import FORMULA, Edit, Place, parse
from autograd_doctor.evidence import Expected

COST = 1.7  # cost of the simplest formula
MOST_PLACES = 24
MOST_OF_ONE = 3  # formulas for one expression
MOST_KNOWN = 24  # numbers that a formula may contain
LONGEST_OWN = 20  # characters of an expression that a formula may contain


@dataclass(frozen=True)
class Number:
    """An expression whose value is a number, and the names defined when it was computed."""

    place: Place
    node: ast.expr
    value: float
    frame: Mapping[str, Any]


class NumberHoles:
    """A recorder for the numbers at some places. It can also replace one number at a time."""

    def __init__(self, places: Sequence[tuple[Place, ast.expr]]) -> None:
        self._places = places
        self._seen: dict[int, Number | None] = {}
        self._replaced: tuple[int, float] | None = None

    def __call__(self, number: int, value: Any, frame: Mapping[str, Any]) -> Any:
        """Return a number, or its replacement."""
        if self._replaced and self._replaced[0] == number:
            return self._replaced[1]
        if self._replaced is None:
            usable = is_number(value) and math.isfinite(value) and number not in self._seen
            place, node = self._places[number]
            new = Number(place, node, float(value), dict(frame)) if usable else None
            self._seen[number] = new
        return value

    @contextmanager
    def replaced(self, number: int, value: float) -> Iterator[None]:
        """Replace one number inside the block."""
        self._replaced = number, value
        try:
            yield
        finally:
            self._replaced = None

    @property
    def found(self) -> Sequence[tuple[int, Number]]:
        """The numbers that were computed exactly once, each with the index of its place."""
        known = [(key, it) for key, it in sorted(self._seen.items()) if it is not None]
        return known[:MOST_PLACES]


@dataclass(frozen=True)
class Needed:
    """The number that corrects the gradients, and its uncertainty."""

    value: float
    slack: float


def needed(
    before: float,
    now: Sequence[Tensor],
    run: Callable[[float], Sequence[Tensor] | None],
    expected: Sequence[Expected],
) -> Iterator[Needed]:
    """Yield the number that would correct some gradients, if there is one.

    Args:
        before: The number that backward uses.
        now: The gradients that result from this number.
        run: Returns the gradients for another number, or ``None`` if backward raises.
        expected: The expected gradients.
    """
    double, triple = (2 * before, 3 * before) if before else (1.0, 2.0)
    truth, room = _flat([it.value for it in expected]), _flat([it.tolerance for it in expected])
    known = truth.isfinite()

    def flat(grads: Sequence[Tensor] | None) -> Tensor | None:
        values = None if grads is None else torch.where(known, _flat(grads), 0.0)
        return values if values is not None and values.isfinite().all() else None

    start, step = flat(now), flat(run(double))
    if start is None or step is None:
        return
    truth, room = torch.where(known, truth, 0.0), torch.where(known, room, 0.0)
    for inverse in (False, True) if before else (False,):
        first, second, third = (1 / it if inverse else it for it in (before, double, triple))
        slope = (step - start) / (second - first)
        size = float((slope**2).sum())
        if not size:
            return
        move = float((slope * (truth - start)).sum()) / size
        rest = (start + move * slope - truth).abs()
        if not first + move or not bool((rest <= 2 * room + 1e-9 * truth.abs()).all()):
            continue
        far = flat(run(triple))
        predicted = start + (third - first) * slope
        if far is None or not torch.allclose(predicted, far, rtol=1e-7, atol=1e-12):
            continue
        slack = float((slope.abs() * room).sum()) / size + 1e-9 * abs(move)
        value = 1 / (first + move) if inverse else first + move
        yield Needed(value, slack * value**2 if inverse else slack)
        return


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([as_real(it).detach().double().reshape(-1) for it in tensors])


def formulas_of(
    number: Number, target: Needed, known: Mapping[str, tuple[float, float]]
) -> list[Edit]:
    """Return the simplest formulas for a number, as edits.

    Args:
        number: The expression to replace.
        target: The value that the formula must have.
        known: Maps the code of each available number to the number's value and cost.
    """
    fitting = sorted(_fitting(number, target, known), key=lambda it: it[0])
    own = ast.unparse(number.node)
    seen = dict.fromkeys((cost, text) for cost, text in fitting if text != own)
    return [
        Edit(FORMULA, COST + cost, number.place, parse(text))
        for cost, text in islice(seen, MOST_OF_ONE)
    ]


def _fitting(
    number: Number, target: Needed, known: Mapping[str, tuple[float, float]]
) -> Iterator[tuple[float, str]]:
    own, value = ast.unparse(number.node), number.value
    if isinstance(number.node, ast.BinOp | ast.UnaryOp):
        own = f"({own})"

    def fits(other: float) -> bool:
        return abs(other - target.value) <= target.slack + 1e-9 * abs(target.value)

    if fits(-value):
        yield 0.1, f"-{own}"
    if value and fits(1 / value):
        yield 0.2, f"1 / {own}"
    if fits(1 - value):
        yield 0.2, f"1 - {own}"
    some = [*known.items()][:MOST_KNOWN]
    for text, (it, cost) in some:
        if fits(it):
            yield cost, text
        if len(own) <= LONGEST_OWN:
            yield from ((cost + 0.3, new) for new in _combined(own, value, text, it, fits))
        if fits(1 - it):
            yield cost + 0.2, f"1 - {text}"
    for (one, (a, cost)), (other, (b, more)) in product(some, repeat=2):
        if one == other:
            continue
        both = cost + more + 0.2
        yield from ((both, new) for new in _combined(one, a, other, b, fits))
        if len(own) <= LONGEST_OWN:
            for text, it in (
                (f"{one} * {other}", a * b),
                (f"{one} / {other}", a / b if b else 0.0),
            ):
                if fits(value + it):
                    yield both + 0.2, f"{own} + {text}"
                if fits(value - it):
                    yield both + 0.2, f"{own} - {text}"
                if fits(value * it):
                    yield both + 0.2, f"{own} * {text}"


def _combined(
    one: str, a: float, other: str, b: float, fits: Callable[[float], bool]
) -> Iterator[str]:
    if fits(a + b):
        yield f"{one} + {other}"
    if fits(a - b):
        yield f"{one} - {other}"
    if fits(a * b):
        yield f"{one} * {other}"
    if b and fits(a / b):
        yield f"{one} / {other}"
