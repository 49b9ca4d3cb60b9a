"""Regions that a label marks: a mask, a class, the index that an argument names."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from autograd_course.doctor.comparing.mismatch import Mismatch
from autograd_course.doctor.evidence import DIM_NAMES
from autograd_course.doctor.running.calls import is_float

Region = tuple[str, Tensor]  # a condition in words, and where it holds


def labeled(m: Mismatch) -> str | None:
    """Return the condition on a label that holds where the gradient is wrong, and only there."""
    return next((where for where, holds in _regions(m) if _explains(m, holds)), None)


def _explains(m: Mismatch, holds: Tensor) -> bool:
    """Whether all that is wrong lies inside, and nothing inside is right but what must be zero."""
    right_inside = m.known & ~m.wrong & holds
    right_outside = m.known & ~m.wrong & ~holds & (m.truth != 0)
    return (
        not bool((m.wrong & ~holds).any())
        and bool(right_outside.any())
        and not bool((m.truth[right_inside] != 0).any())
    )


def _regions(m: Mismatch) -> Iterator[Region]:
    for position, value in enumerate(m.evidence.inputs):
        name = m.evidence.name(position)
        if isinstance(value, Tensor) and not is_float(value):
            yield from _by_label(name, value, m.input.shape)
        elif isinstance(value, int) and not isinstance(value, bool) and name not in DIM_NAMES:
            yield from _by_index(name, value, m.input)


def _by_label(name: str, label: Tensor, shape: torch.Size) -> Iterator[Region]:
    """Yield where a label for each element, or for each row, has a value that is no accident.

    That is a mask's either value, a number below zero (what is ignored), one that occurs again.
    """
    if label.dim() == 0 or label.shape != shape[: label.dim()]:
        return
    rows = label.reshape(label.shape + (1,) * (len(shape) - label.dim())).expand(shape)
    values, counts = label.unique(return_counts=True)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        if value is True or value is False or value < 0 or count > 1:
            yield f"`{name}` is {value}", rows == value


def _by_index(name: str, value: int, like: Tensor) -> Iterator[Region]:
    """Yield the slices along each dim whose index is an argument of the call."""
    for axis, length in enumerate(like.shape):
        if length > 2 and -length <= value < length:
            holds = torch.zeros_like(like, dtype=torch.bool)
            holds.select(axis, value).fill_(True)
            yield f"the index along dim {axis} is {value}, the value of `{name}`", holds
