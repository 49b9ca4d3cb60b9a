"""What an answer returned, as data: what cannot travel is told by the name of its type."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from autograd_course.classroom.protocol import Frame
from autograd_course.doctor.wire import pack

_TRAVELS = (Tensor, bool, int, float, str, tuple, list, dict)


def returned(values: tuple[Any, ...]) -> Frame:
    """Return the frame of what a call returned; ``types`` names by position what stays here."""
    stays = {
        str(place): type(value).__name__
        for place, value in enumerate(values)
        if value is not None and not isinstance(value, _TRAVELS)
    }
    sent = tuple(None if str(place) in stays else value for place, value in enumerate(values))
    return Frame({"types": stays}, pack(sent))
