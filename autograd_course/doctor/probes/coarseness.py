"""How coarse one call is in float32: its rounding errors beside what rounding explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from autograd_course.doctor.probes.precisions import Inputs, Precisions
from autograd_course.doctor.truth.rounding import (
    EXCESSIVE,
    Values,
    alike,
    distance,
    each,
    excess,
    peaks,
)

DRAWS = 2  # of rounding errors: those of a single draw may happen to cancel
ROUGH = 0.2  # by this fraction at least rounding errors differ beside; what is smooth does by less


def coarseness(
    call: Precisions,
    inputs: Inputs,
    both: tuple[Values, Values],
    beside: Callable[[], Inputs],
    grain: Sequence[float],
) -> tuple[Values, Values]:
    """Return the rounding errors and the noise to be expected; both empty if that explains them.

    ``both`` is what float32 and float64 gave for the inputs, ``beside`` makes inputs close to them,
    and the noise is no less than ``grain`` for each result.
    """
    error = each(distance, *both)
    if all(e <= EXCESSIVE * g for e, g in zip(peaks(error), grain, strict=True)):
        return (), ()  # as for most calls: then nothing else is run
    there, noise = call.both(beside()), _noise(call, inputs, both[1], grain)
    if there is None or noise is None or not alike(there[1], both[1]):
        return (), ()
    change = each(distance, each(torch.sub, *both), each(torch.sub, *there))
    measured = zip(error, change, both[1], noise, strict=True)
    error = tuple(e if _is_rounding(e, *others) else None for e, *others in measured)
    return (error, noise) if any(e is not None for e in error) else ((), ())


def _noise(
    call: Precisions, inputs: Inputs, double: Values, grain: Sequence[float]
) -> Values | None:
    """Return how far one rounding error on every number moves the results of float64."""
    least = zip(double, grain, strict=True)
    noise: Values = tuple(None if v is None else torch.full_like(v.abs(), g) for v, g in least)
    for draw in range(1, DRAWS + 1):
        moved = call.rounded_once(inputs, draw)
        if moved is None or not alike(moved, double):
            return None
        noise = each(torch.maximum, noise, each(distance, moved, double))
    return noise


def _is_rounding(
    error: Tensor | None, change: Tensor | None, value: Tensor | None, noise: Tensor | None
) -> bool:
    """Whether an error is more than noise, and as rough as rounding errors are.

    An error that is much the same beside has another cause: a random draw, another sign of an
    eigenvector, a tolerance that depends on the dtype.
    """
    if error is None or change is None or excess(error, value, noise) <= EXCESSIVE:
        return False
    off = error != 0
    return float((change[off] / error[off]).median()) > ROUGH
