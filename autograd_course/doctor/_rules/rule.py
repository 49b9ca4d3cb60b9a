"""Where a call made in another way disagrees with the plain one, and how to say it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from autograd_course.doctor.comparing.closeness import identical, resolution, size
from autograd_course.doctor.comparing.numbers import element, number, plain, unraveled
from autograd_course.doctor.evidence import Evidence, Twin
from autograd_course.doctor.rules.registry import Seen
from autograd_course.doctor.rules.wording import raised, what_was_raised

Place = tuple[int, tuple[int, ...]]  # which tensor of a twin, and the index furthest off


def twins(evidence: Evidence, kind: str) -> Iterator[Twin]:
    """Yield the twins of one kind."""
    return (twin for twin in evidence.twins if twin.kind == kind)


def disagreement(evidence: Evidence, kind: str) -> Seen | None:
    """Say how the first twin of this kind failed or disagrees, ``None`` where all agree."""
    return next(filter(None, map(told, twins(evidence, kind))), None)


def told(twin: Twin) -> Seen | None:
    """Say how one twin failed or disagrees, ``None`` where it agrees."""
    if twin.failure:
        stage = f"`{twin.stage}`" if twin.stage in ("forward", "backward") else twin.stage
        return Seen(f"{twin.how}, {stage} {what_was_raised(twin.failure)}", raised(twin.failure))
    place = furthest(twin)
    if place is None:
        return None
    k, index = place
    name = twin.names[k]
    came, should = (shown(value[k], index) for value in (twin.came, twin.should))
    where = element(name, index)
    return Seen(f"{name} changes {twin.how}.", {"witness": f"{where}: {came}, should be {should}"})


def furthest(twin: Twin) -> Place | None:
    """Return the first tensor that disagrees and where it is furthest off."""
    for k, (came, should) in enumerate(zip(twin.came, twin.should, strict=True)):
        off = None if identical(came, should) else distance(came, should)
        if off is None or not off.numel():
            continue
        slack = max(twin.tolerance, _coarse(came), _coarse(should))
        if float(off.max()) > slack * max(size_of(came), size_of(should)) + twin.floor:
            return k, unraveled(int(off.argmax()), off.shape)
    return None


def distance(came: Tensor | None, should: Tensor | None) -> Tensor | None:
    """Return how far apart two tensors are; no gradient at all counts as zeros."""
    if came is None and should is None:
        return None
    came, should = (_or_zeros(came, should), _or_zeros(should, came))
    if came.shape != should.shape:
        return torch.full((), torch.inf)
    same = (came == should) | (torch.isnan(came) & torch.isnan(should))
    return torch.where(same, 0.0, torch.nan_to_num((came - should).abs(), nan=torch.inf))


def size_of(tensor: Tensor | None) -> float:
    """Return the largest finite magnitude, 0 for no tensor."""
    return 0.0 if tensor is None else size(tensor)


def _coarse(tensor: Tensor | None) -> float:
    return 0.0 if tensor is None or tensor.is_complex() else resolution(tensor)


def _or_zeros(tensor: Tensor | None, like: Tensor | None) -> Tensor:
    if tensor is not None:
        return tensor
    assert like is not None
    return torch.zeros_like(like)


def shown(tensor: Tensor | None, index: tuple[int, ...]) -> str:
    """Return one element in four digits, or what there is in its place."""
    if tensor is None:
        return "None"
    return (
        number(plain(tensor[index]))
        if tensor.dim() == len(index)
        else f"shape {tuple(tensor.shape)}"
    )
