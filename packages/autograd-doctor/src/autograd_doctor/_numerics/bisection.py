"""Find wrong elements of a gradient that is too large for finite differences at every element.

Both ⟨g, J v⟩ and ⟨B(g), v⟩ are sums over the elements of the direction ``v``. If the two sums
differ, they also differ for at least one half of the elements. Repeated halving finds one element
among a million in twenty steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from autograd_doctor._numerics.closeness import size
from autograd_doctor._numerics.finite_differences import (
    DIRECTIONS,
    MOST_ENTRIES,
    STEP,
    Values,
    affordable,
    as_real,
    jacobian,
    moved_by,
)
from autograd_doctor._numerics.projection import flat_cotangent
from autograd_doctor.evidence import RANDOM, Evidence, JacobianColumns

RELATIVE = 1e-6  # relative to the sum: correct values agree much more closely
NARROWER = 5  # how many times to halve a bound's interval (to 1/32); fewer for many outputs
CLEAR = 10.0  # times the estimated error of the finite differences

# index among the wanted inputs, and a range of the input's flat real elements
Part = tuple[int, int, int]


def bisect_columns(
    values: Values,
    inputs: Sequence[Any],
    wanted: Sequence[int],
    evidence: Evidence,
) -> Evidence:
    """Add Jacobian columns to the evidence for elements whose gradient might be wrong.

    If all columns are known, or if the known columns already show a mistake, add nothing.
    """
    counts = [as_real(inputs[position]).numel() for position in wanted]
    known = [len(columns.index) for columns in evidence.values.jacobian]
    if known == counts or _shown(evidence):
        return evidence
    places = _suspects(values, inputs, wanted, evidence)
    if not any(len(at) for at in places):
        return evidence
    further = jacobian(values, inputs, wanted, places)
    both = zip(evidence.values.jacobian, further, strict=True)
    return replace(
        evidence,
        values=replace(
            evidence.values, jacobian=tuple(_joined(columns, more) for columns, more in both)
        ),
    )


def _shown(evidence: Evidence) -> bool:
    """Return whether a gradient is wrong at an element whose Jacobian column is known."""
    vjp = evidence.values.vjps[RANDOM]
    if vjp.failure:
        return True
    g = flat_cotangent(evidence, vjp.grad_outputs)
    for grad, columns in zip(vjp.grads, evidence.values.jacobian, strict=True):
        truth, error = columns.matrix.T @ g, CLEAR * (columns.error.T @ g.abs())
        actual = torch.zeros_like(truth)
        if grad is not None:
            actual = as_real(grad).reshape(-1).double()[columns.index.to(grad.device)]
        apart = (actual - truth).abs() > error + RELATIVE * size(truth)
        if bool((apart & columns.smooth.to(apart.device)).any()):
            return True
    return False


def _joined(columns: JacobianColumns, more: JacobianColumns) -> JacobianColumns:
    """Merge two sets of Jacobian columns, ordered by position and without duplicates."""
    new = ~torch.isin(more.index, columns.index)
    index, order = torch.cat([columns.index, more.index[new]]).sort()
    return JacobianColumns(
        index,
        torch.cat([columns.matrix, more.matrix[:, new]], 1)[:, order],
        torch.cat([columns.error, more.error[:, new]], 1)[:, order],
        torch.cat([columns.smooth, more.smooth[new]])[order],
    )


def _suspects(
    values: Values, inputs: Sequence[Any], wanted: Sequence[int], evidence: Evidence
) -> tuple[Tensor, ...]:
    """For each wanted input, return the flat positions at which the gradient seems to be wrong.

    For each direction, the search finds at most one wrong element. To narrow down the bound that
    separates wrong from correct input values, it also returns a few elements near this bound. The
    Jacobian's columns then show which of these elements are wrong.
    """
    found: list[set[int]] = [set() for _ in wanted]
    for direction in range(DIRECTIONS):
        compared = _Compared(values, inputs, wanted, evidence, direction)
        for slot, position in enumerate(wanted):
            elements = as_real(inputs[position]).reshape(-1)
            whole = (slot, 0, elements.numel())
            if compared.differs(whole):
                place = _halved(compared, whole)
                known = evidence.values.jacobian[slot].index.to(elements.device)
                found[slot] |= {place, *_between(compared, slot, place, elements, known)}
    return tuple(torch.tensor(sorted(places), dtype=torch.long) for places in found)


def _halved(compared: _Compared, part: Part) -> int:
    """Halve a part repeatedly, keep the half that differs more, and return the last element."""
    (slot, start, end), whole = part, compared.off(part)
    while end - start > 1:
        middle = (start + end) // 2
        left = compared.off((slot, start, middle))
        if abs(left) > abs(whole - left):
            end, whole = middle, left
        else:
            start, whole = middle, whole - left
    return start


def _between(
    compared: _Compared, slot: int, place: int, elements: Tensor, right: Tensor
) -> Iterator[int]:
    """Yield elements that narrow down the bounds between a wrong value and correct values."""
    lower, upper = elements[right] < elements[place], elements[right] > elements[place]
    times = affordable(NARROWER, compared.outputs, MOST_ENTRIES // 2)
    for side in (right[lower], right[upper]):
        if not len(side):
            continue
        nearest = (elements[side] - elements[place]).abs().argmin()
        wrong, fine = elements[place], elements[side][nearest]
        for _ in range(times):
            low, high = torch.minimum(wrong, fine), torch.maximum(wrong, fine)
            at = int((elements - (low + high) / 2).abs().argmin())
            if not low < elements[at] < high:
                break
            yield at
            if compared.differs((slot, at, at + 1)):
                wrong = elements[at]
            else:
                fine = elements[at]


class _Compared:
    """The gradient and the slope along one direction.

    The methods compare the two for a part of the direction's elements.
    """

    def __init__(
        self,
        values: Values,
        inputs: Sequence[Any],
        wanted: Sequence[int],
        evidence: Evidence,
        direction: int,
    ) -> None:
        assert evidence.values.slopes is not None
        vjp = evidence.values.vjps[RANDOM]
        self._values, self._inputs, self._wanted = values, inputs, wanted
        self._vectors = [columns[:, direction] for columns in evidence.values.slopes.vectors]
        self._terms = [
            torch.zeros_like(v) if grad is None else v * as_real(grad).reshape(-1).double()
            for grad, v in zip(vjp.grads, self._vectors, strict=True)
        ]
        self._cotangent = flat_cotangent(evidence, vjp.grad_outputs)
        self._center = values(inputs)
        self.outputs = self._center.numel()

    def off(self, part: Part) -> float:
        """Return the gradient minus the slope.

        The slope is a finite difference with a single step size.
        """
        return self._actual(part) - self._difference(part, STEP / 2)

    def differs(self, part: Part) -> bool:
        """Return whether the gradient and the slope differ by more than the error of the slope."""
        wide, narrow = self._difference(part, STEP), self._difference(part, STEP / 2)
        slope, slot = (4 * narrow - wide) / 3, part[0]
        error = CLEAR * abs(slope - narrow) + RELATIVE * float(self._terms[slot].norm())
        return abs(self._actual(part) - slope) > error

    def _actual(self, part: Part) -> float:
        slot, start, end = part
        return float(self._terms[slot][start:end].sum())

    def _difference(self, part: Part, h: float) -> float:
        return (self._moved(part, h) - self._moved(part, -h)) / (2 * h)

    def _moved(self, part: Part, h: float) -> float:
        """Return the change in the weighted sum of the outputs.

        Outputs that do not change add no rounding error.
        """
        slot, start, end = part
        offsets = [torch.zeros_like(vector) for vector in self._vectors]
        offsets[slot][start:end] = h * self._vectors[slot][start:end]
        change = self._values(moved_by(self._inputs, self._wanted, offsets)) - self._center
        return float(torch.dot(change, self._cotangent))
