"""The reference Functions that have a curve: what the lab offers when it is given none."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from autograd_course.functions import ClippedReLU, ScaledSigmoid, Square, ToPolar, WeightedSum
from autograd_course.visualize.functionlab.subject import Range

to_polar: Callable[..., tuple[Tensor, Tensor]] = ToPolar.apply


def radius(x: Tensor, y: Tensor) -> Tensor:
    """One of the two outputs; the gradient of the other one arrives as zeros."""
    r, _ = to_polar(x, y)
    return r


def angle(x: Tensor, y: Tensor) -> Tensor:
    """The other output, in radians."""
    _, theta = to_polar(x, y)
    return theta


@dataclass(frozen=True)
class Entry:
    """A Function with parameters at which it shows its shape."""

    name: str
    fn: Any
    parameters: tuple[Any, ...] = ()
    ranges: dict[str, Range] = field(default_factory=dict)


def entries() -> list[Entry]:
    """Return the reference Functions of one number x."""
    one = torch.tensor(1.0)
    return [
        Entry("Square", Square),
        Entry("ScaledSigmoid", ScaledSigmoid, (2.0, 1.5), {"x": (-4, 4)}),
        Entry("ClippedReLU", ClippedReLU, (3.0,), {"x": (-2, 6), "ceiling": (1, 6)}),
        Entry("WeightedSum", WeightedSum, (-one, one / 4), {"w": (0, 1)}),
        Entry("ToPolar, radius", radius, (one,)),
        Entry("ToPolar, angle", angle, (one,)),
    ]
