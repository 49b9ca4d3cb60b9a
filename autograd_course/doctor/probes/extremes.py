"""Far from the example: large numbers, small ones, numbers far from zero, masks of -inf.

What comes back are the calls where float32 gives no number, or one that is coarser than rounding
explains, and those where a mask gives nan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from autograd_course.doctor.comparing.closeness import size
from autograd_course.doctor.comparing.numbers import element, number
from autograd_course.doctor.evidence import Evidence, Extreme
from autograd_course.doctor.probes.neighborhood import neighborhood
from autograd_course.doctor.probes.precisions import Inputs, Precisions, as_single_holds
from autograd_course.doctor.running.session import Session
from autograd_course.doctor.truth.rounding import Values, finite, peaks

# exp overflows float32 at 89 and float64 at 710: steps of less than a factor of 8 land between.
RUNGS = tuple(10 ** (k / 2) for k in range(1, 7))  # to 1000
LOW = -50.0  # as good as -inf to an exponential, yet without underflow


def extremes(session: Session, evidence: Evidence) -> Evidence:
    """Return the evidence with the calls that float32 does not survive as float64 does."""
    tensors = [value for value in session.inputs if isinstance(value, Tensor)]
    empty = not all(session.inputs[i].numel() for i in session.wanted)
    if empty or any(t.is_complex() for t in tensors):
        return evidence
    call, example = Precisions(session), as_single_holds(session.inputs)
    far = [found for i in session.wanted for found in _ladder(call, evidence, example, i)]
    near = list(neighborhood(call, evidence, example))
    masked = [found for i in session.wanted for found in _masked(call, evidence, example, i)]
    worst_first = sorted([*far, *near], key=lambda found: not found.is_example)
    return replace(evidence, extremes=(*worst_first, *masked))


def _ladder(
    call: Precisions, evidence: Evidence, example: Inputs, position: int
) -> Iterator[Extreme]:
    """Yield the first magnitude of one input at which float32 gives what is not finite."""
    largest = size(example[position])
    rungs = [rung for rung in RUNGS if rung > largest > 0]

    def at(rung: float) -> Inputs:
        return as_single_holds(_with(example, position, example[position] * (rung / largest)))

    if not rungs or not _overflows(call.single(at(rungs[-1]))):
        return  # what the last one bears, the others do
    first = next(rung for rung in rungs if rung is rungs[-1] or _overflows(call.single(at(rung))))
    both = call.both(at(first))
    if both is not None:
        how = f"once `|{evidence.name(position)}|` reaches {number(first)}"
        yield call.extreme(evidence, how, at(first), *both)


def _overflows(values: Values | None) -> bool:
    return values is not None and not finite(values)


def _masked(
    call: Precisions, evidence: Evidence, example: Inputs, position: int
) -> Iterator[Extreme]:
    """Yield the calls with -inf in one element, or in one row, that give nan where -50 does not."""
    name, tensor = evidence.name(position), example[position]
    first = (0,) * tensor.dim()

    def filled(place: tuple[int, ...], value: float) -> Inputs:
        changed = tensor.clone()
        changed[place] = value
        return _with(example, position, changed)

    if not _nan(call.double(filled(first[:-1], -torch.inf))):
        return  # what bears a row bears an element
    for place in (first, first[:-1]) if first else (first,):
        inputs = filled(place, -torch.inf)
        double, bounded = call.double(inputs), call.double(filled(place, LOW))
        # Outside the domain, as of a logarithm, both are nan.
        if double is None or bounded is None or not _nan(double) or not finite(bounded):
            continue
        every = "every element of " if len(place) < tensor.dim() else ""
        how = f"when {every}`{element(name, place)}` is -inf"
        yield replace(call.extreme(evidence, how, inputs, (), double), masked=position)


def _nan(values: Values | None) -> bool:
    return values is not None and any(map(math.isnan, peaks(values)))


def _with(inputs: Inputs, position: int, tensor: Tensor) -> Inputs:
    return (*inputs[:position], tensor, *inputs[position + 1 :])
