"""Convert the results of an answer to frames. A value that cannot be sent becomes its type name."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from autograd_classroom.protocol import Frame
from autograd_classroom.protocol.wire import pack
from autograd_classroom.worker.unusual import MOST, kind
from autograd_course.execution import Raised

_PLAIN = (bool, int, float, str, type(None))
_DEPTH = 8  # maximum nesting depth of lists


def raised(came: Raised) -> Frame:
    """Return a frame that describes the exception that a call raised."""
    said = {"raised": came.told, "unwritten": came.unwritten, "separate": came.separate}
    return Frame(said)


def returned(values: tuple[Any, ...]) -> Frame:
    """Return a frame with the results of a call.

    ``types`` in the frame maps the position of each value that cannot be sent to its type name.
    """
    if len(values) > MOST:
        what = f"it returns {len(values):,} values, far more than the exercise asks for."
        return Frame({"unfit": what})
    stays = {str(place): _named(value) for place, value in enumerate(values) if not _travels(value)}
    sent = tuple(None if str(place) in stays else value for place, value in enumerate(values))
    return Frame({"types": stays}, pack(sent))


def _travels(value: Any, depth: int = _DEPTH) -> bool:
    if isinstance(value, Tensor):
        return not kind(value)
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, tuple | list):
        inside = depth > 0 and len(value) <= MOST
        return inside and all(_travels(item, depth - 1) for item in value)
    return isinstance(value, _PLAIN)


def _named(value: Any) -> str:
    return kind(value) or type(value).__name__
