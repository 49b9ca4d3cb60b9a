"""Where float32 is coarse: on the example, on fractions of it, far from zero.

Formulas lose digits where large numbers cancel, or where a small one is added to a large one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from autograd_course.doctor.comparing.closeness import size
from autograd_course.doctor.evidence import Evidence, Extreme
from autograd_course.doctor.probes.coarseness import coarseness
from autograd_course.doctor.probes.precisions import (
    Inputs,
    Precisions,
    as_single_holds,
    jittered,
)
from autograd_course.doctor.truth.rounding import EPS, Values, alike, each, finite, peaks
from autograd_course.doctor.world.randomness import Stream, generator

FRACTIONS = (1e-4, 1e-2)
SHIFT = 1000.0  # times the spread of the numbers: years around 2000 that differ by 2
ASIDE = 0.05  # far enough for rounding errors to be others, near enough for all else to be alike


@dataclass(frozen=True)
class _Neighbor:
    """How to get there from the example, and by how much rounding errors may grow on the way."""

    how: str
    change: Callable[[Inputs], Inputs]
    growth: float = 1.0


def neighborhood(call: Precisions, evidence: Evidence, example: Inputs) -> Iterator[Extreme]:
    """Yield the calls where float32 is coarse, or gives what is not finite.

    A result that is small here may be the rest of one that is large for smaller inputs, as a
    sigmoid's gradient is in its tails: a rounding of that size is expected.
    """
    on_example = call.both(example)
    if on_example is None:
        return
    aside = jittered(example, ASIDE, generator(call.session.seed, Stream.ASIDE))
    elementwise = _is_elementwise(call, example, aside, on_example[1])
    neighbors = _neighbors(evidence, example, FRACTIONS if elementwise else ())
    largest: list[float] = []
    for neighbor in neighbors:
        inputs, beside = neighbor.change(example), partial(neighbor.change, aside)
        is_example = inputs is example
        both = on_example if is_example else call.both(inputs)
        if both is None:
            continue
        sizes = peaks(both[1])
        largest = [max(pair) for pair in zip(sizes, largest or sizes, strict=True)]
        grain = [EPS * neighbor.growth * size for size in largest]
        if not (elementwise or is_example):
            grain = _of_outputs(grain, len(evidence.wanted))
        ordinary = finite(both[0])
        error, noise = coarseness(call, inputs, both, beside, grain) if ordinary else ((), ())
        if error or not ordinary:
            found = call.extreme(evidence, neighbor.how, inputs, *both)
            yield replace(found, error=error, noise=noise, is_example=is_example)


def _is_elementwise(call: Precisions, example: Inputs, aside: Inputs, double: Values) -> bool:
    """Whether each result depends on one element of one input alone.

    Only then is a loss for small inputs the formula's own. What mixes elements may cancel by its
    nature: the gradient of a softmax whose inputs are nearly equal, a batch norm after a bias.
    """
    if len(call.session.wanted) > 1:
        return False
    (position,) = call.session.wanted
    x = example[position]
    if any(value is None or value.shape != x.shape for value in double):
        return False
    rng = generator(call.session.seed, Stream.HALVES)
    kept = (torch.rand(x.shape, generator=rng) < 0.5).to(x.device)
    half = list(example)
    half[position] = torch.where(kept, x, aside[position])
    moved = call.double(tuple(half))
    if moved is None or not alike(double, moved):
        return False
    return not any(peaks(each(lambda one, other: (one - other)[kept], double, moved)))


def _of_outputs(grain: list[float], gradients: int) -> list[float]:
    """Return the grain with that of the gradients infinite, so that these are not judged.

    Sums of a gradient with numbers far from zero lose digits twice in a correct backward too, as
    that of a linear layer before a batch norm.
    """
    return grain[:-gradients] + [math.inf] * gradients


def _neighbors(
    evidence: Evidence, example: Inputs, fractions: Sequence[float]
) -> Iterator[_Neighbor]:
    """Yield them by size: the smaller first."""
    wanted = evidence.wanted
    one = len(wanted) == 1
    are, their = (f"`{evidence.name(wanted[0])}` is", "its") if one else ("the inputs are", "their")
    for fraction in fractions:
        how = f"when {are} multiplied by {fraction:g}"
        yield _Neighbor(how, _changed(wanted, torch.mul, fraction))
    yield _Neighbor("on your inputs", lambda inputs: inputs)
    data = _data(evidence, example)
    shift = SHIFT * max(_spread(example[i]) for i in data)
    how = f"when {are} shifted by {SHIFT:g} times {their} spread"
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
