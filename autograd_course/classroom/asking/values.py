"""What an answer returned, as data: what does not travel is told by the name of its type."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from autograd_course.classroom.protocol import Frame
from autograd_course.classroom.protocol.frames import LONGEST_PAYLOAD
from autograd_course.doctor.wire import pack

_TENSORS = (Tensor, nn.Parameter)  # one of another class decides itself what is done with it
_PLAIN = (bool, int, float, str, type(None))
_DEPTH = 8  # of lists in lists


def returned(values: tuple[Any, ...]) -> Frame:
    """Return the frame of what a call returned; ``types`` names by position what stays here."""
    stays = {str(place): _kind(value) for place, value in enumerate(values) if not _travels(value)}
    sent = tuple(None if str(place) in stays else value for place, value in enumerate(values))
    return Frame({"types": stays}, pack(sent))


def _travels(value: Any, depth: int = _DEPTH) -> bool:
    if isinstance(value, Tensor):
        return type(value) in _TENSORS and value.nbytes <= LONGEST_PAYLOAD
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, tuple | list):
        return depth > 0 and all(_travels(item, depth - 1) for item in value)
    return isinstance(value, _PLAIN)


def _kind(value: Any) -> str:
    if type(value) in _TENSORS:
        return f"Tensor of {value.numel():,} numbers"
    return type(value).__name__
