"""Where float32 is coarse: on the example, on fractions of it, far from zero.

Formulas lose digits where large numbers cancel, or where a small one is added to a large one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from autograd_course.doctor.evidence import Evidence, Extreme
from autograd_course.doctor.mismatch import size
from autograd_course.doctor.probes.coarseness import coarseness
from autograd_course.doctor.probes.precisions import (
    Inputs,
    Precisions,
    as_single_holds,
    jittered,
)
from autograd_course.doctor.randomness import generator
from autograd_course.doctor.rounding import EPS, finite, peaks

FRACTIONS = (1e-4, 1e-2)
SHIFT = 1000.0  # times the spread of the numbers: years around 2000 that differ by 2
ASIDE = 0.05  # far enough for rounding errors to be others, near enough for all else to be alike
ASIDES = 10  # a stream of random numbers


@dataclass(frozen=True)
class _Neighbor:
    """How to get there from the example, and by how much that lets rounding errors grow."""

    how: str
    change: Callable[[Inputs], Inputs]
    growth: float = 1.0


def neighborhood(call: Precisions, evidence: Evidence, example: Inputs) -> Iterator[Extreme]:
    """Yield the calls where float32 is coarse, or gives what is not finite.

    A result that is small here may be the rest of one that is large for smaller inputs, as a
    sigmoid's gradient is in its tails: a rounding of that size is expected.
    """
    aside = jittered(example, ASIDE, generator(call.session.seed, ASIDES))
    largest: list[float] = []
    for neighbor in _neighbors(evidence, example):
        inputs, beside = neighbor.change(example), partial(neighbor.change, aside)
        both = call.both(inputs)
        if both is None:
            continue
        sizes = peaks(both[1])
        largest = [max(pair) for pair in zip(sizes, largest or sizes, strict=True)]
        grain = [EPS * neighbor.growth * size for size in largest]
        ordinary = finite(both[0])
        error, noise = coarseness(call, inputs, both, beside, grain) if ordinary else ((), ())
        if error or not ordinary:
            found = call.extreme(evidence, neighbor.how, inputs, *both)
            yield replace(found, error=error, noise=noise, is_example=inputs is example)


def _neighbors(evidence: Evidence, example: Inputs) -> Iterator[_Neighbor]:
    """Yield them by size: the smaller first."""
    wanted = evidence.wanted
    one = len(wanted) == 1
    them, their = (evidence.name(wanted[0]), "its") if one else ("the inputs", "their")
    # A parameter, which has far fewer elements, may mean something else on another scale.
    most = max(example[i].numel() for i in wanted)
    scaled = [i for i in wanted if 2 * example[i].numel() >= most]
    for fraction in FRACTIONS:
        yield _Neighbor(f"with {them} times {fraction:g}", _changed(scaled, torch.mul, fraction))
    yield _Neighbor("on the example itself", lambda inputs: inputs)
    data = _data(evidence, example)
    shift = SHIFT * max(_spread(example[i]) for i in data)
    how = f"with {them} shifted by {SHIFT:g} times {their} spread"
    yield _Neighbor(how, _changed(data, torch.add, shift), SHIFT)


def _data(evidence: Evidence, example: Inputs) -> Sequence[int]:
    """Return the inputs that may lie far from zero: parameters, which have fewer axes, seldom do,
    and a square matrix is an operator more often than data."""
    axes = max(example[i].dim() for i in evidence.wanted)
    most = [i for i in evidence.wanted if example[i].dim() == axes]
    return [i for i in most if axes < 2 or example[i].shape[-1] != example[i].shape[-2]] or most


def _changed(
    positions: Sequence[int], operation: Callable[[Tensor, float], Tensor], by: float
) -> Callable[[Inputs], Inputs]:
    def change(inputs: Inputs) -> Inputs:
        return as_single_holds(
            [operation(v, by) if i in positions else v for i, v in enumerate(inputs)]
        )

    return change


def _spread(tensor: Tensor) -> float:
    """Return the standard deviation of the finite elements; of a single one, its magnitude."""
    known = tensor[torch.isfinite(tensor)]
    spread = float(known.std(correction=0)) if known.numel() else 0.0
    return spread or size(tensor)
