"""Where a gradient is wrong, among more elements than can be differentiated one by one.

⟨g, J v⟩ and ⟨B(g), v⟩ are both sums over the elements that move. Where they differ, so do they for
one half of these elements: halved again and again, twenty steps lead to one of a million.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from autograd_course.doctor.evidence import Evidence, Pull
from autograd_course.doctor.truth.differences import (
    DIRECTIONS,
    STEP,
    Values,
    as_real,
    moved_by,
    points,
)
from autograd_course.doctor.truth.projection import flat_cotangent

RELATIVE = 1e-6  # of what is added up: where both are right they agree far better
CLEAR = 10.0  # times the estimated error of the differences

Part = tuple[int, int, int]  # the input's slot, and from where to where in it, flat and real
Off = Callable[[Part], tuple[float, float]]  # gradient minus slope, and what it may be by error


def suspects(
    values: Values, inputs: Sequence[Any], wanted: Sequence[int], evidence: Evidence
) -> tuple[Tensor, ...]:
    """Return, for each wanted input, flat positions at which the gradient seems to be wrong.

    There is at most one for each direction. Each is to be differentiated by itself: it decides.
    """
    found: list[set[int]] = [set() for _ in wanted]
    pull = evidence.pulls["random"]
    for direction in range(0 if pull.failure else DIRECTIONS):
        off = _comparison(values, inputs, wanted, evidence, pull, direction)
        sizes = [as_real(inputs[position]).numel() for position in wanted]
        parts = [(slot, 0, size) for slot, size in enumerate(sizes) if size]
        for slot, place in (_halved(off, part) for part in parts if _differs(off, part)):
            found[slot].add(place)
    return tuple(torch.tensor(sorted(places), dtype=torch.long) for places in found)


def _comparison(
    values: Values,
    inputs: Sequence[Any],
    wanted: Sequence[int],
    evidence: Evidence,
    pull: Pull,
    direction: int,
) -> Off:
    assert evidence.slopes is not None
    vectors = [columns[:, direction] for columns in evidence.slopes.vectors]
    terms = [
        torch.zeros_like(vector) if grad is None else vector * as_real(grad).reshape(-1).double()
        for grad, vector in zip(pull.grads, vectors, strict=True)
    ]
    cotangent, center = flat_cotangent(evidence, pull.grad_outputs), values(inputs)

    def off(part: Part) -> tuple[float, float]:
        slot, start, end = part
        offsets = [torch.zeros_like(vector) for vector in vectors]
        offsets[slot][start:end] = vectors[slot][start:end]

        def at(h: float) -> Tensor:
            moved = values(moved_by(inputs, wanted, [h * offset for offset in offsets]))
            return ((moved - center) * cotangent).sum()

        above, below, near_above, near_below = points(at, STEP).tolist()
        wide, narrow = (above - below) / (2 * STEP), (near_above - near_below) / STEP
        slope, came = (4 * narrow - wide) / 3, terms[slot][start:end]
        error = CLEAR * abs(slope - narrow) + RELATIVE * float(torch.linalg.vector_norm(came))
        return float(came.sum()) - slope, error

    return off


def _differs(off: Off, part: Part) -> bool:
    difference, error = off(part)
    return abs(difference) > error


def _halved(off: Off, part: Part) -> tuple[int, int]:
    """Return the element to which a difference is narrowed down, the larger half each time."""
    slot, start, end = part
    whole, _ = off(part)
    while end - start > 1:
        middle = (start + end) // 2
        left, _ = off((slot, start, middle))
        if abs(left) > abs(whole - left):
            end, whole = middle, left
        else:
            start, whole = middle, whole - left
    return slot, start
