"""Send and receive frames. A frame consists of a JSON object and a payload of bytes.

A frame starts with the lengths of the object and the payload. Data from a child may be hostile, so
this module limits all lengths and waiting times. If the received data is not a valid frame,
:func:`read` returns a :class:`Malformed` object with the reason.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

LONGEST_HEADER = 1 << 20
LONGEST_PAYLOAD = 64 << 20
DEEPEST = 32  # maximum nesting depth of lists and objects
_LENGTHS = struct.Struct("!II")


@dataclass(frozen=True)
class Frame:
    """One question or one answer. ``said`` is the JSON object."""

    said: dict[str, Any]
    payload: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Malformed:
    """The result if no valid answer arrives.

    ``reason`` completes a sentence that starts with "the answer …".
    """

    reason: str
    gone: bool = False  # the other side has closed the connection
    late: bool = False


class _UnreadError(Exception):
    """Raised when a frame cannot be read. ``malformed`` is the result to return instead."""

    def __init__(self, reason: str, **kind: bool) -> None:
        super().__init__(reason)
        self.malformed = Malformed(reason, **kind)


def write(channel: socket.socket, frame: Frame, seconds: float | None = None) -> Malformed | None:
    """Send a frame. If the frame cannot be sent, return the reason."""
    header = json.dumps(frame.said).encode()
    try:
        channel.settimeout(seconds)
        channel.sendall(_LENGTHS.pack(len(header), len(frame.payload)) + header + frame.payload)
    except TimeoutError:
        return Malformed("never came: the question was not read", late=True)
    except OSError:
        return Malformed("never came", gone=True)
    return None


def read(channel: socket.socket, seconds: float | None = None) -> Frame | Malformed:
    """Receive a frame. The whole frame must arrive within the given number of seconds."""
    until = None if seconds is None else time.monotonic() + seconds
    try:
        lengths = _LENGTHS.unpack(_exactly(channel, _LENGTHS.size, until))
        for length, longest in zip(lengths, (LONGEST_HEADER, LONGEST_PAYLOAD), strict=True):
            if length > longest:
                raise _UnreadError(f"is longer than {longest >> 20} MiB")
        header = _exactly(channel, lengths[0], until)
        return Frame(_said(header), _exactly(channel, lengths[1], until))
    except _UnreadError as wrong:
        return wrong.malformed


def _exactly(channel: socket.socket, count: int, until: float | None) -> bytes:
    data = bytearray()
    while len(data) < count:
        data += _some(channel, min(count - len(data), 1 << 20), until)
    return bytes(data)


def _some(channel: socket.socket, most: int, until: float | None) -> bytes:
    left = None if until is None else until - time.monotonic()
    try:
        if left is not None and left <= 0:
            raise TimeoutError
        channel.settimeout(left)
        data = channel.recv(most)
    except TimeoutError:
        raise _UnreadError("did not come in time", late=True) from None
    except OSError as error:
        raise _UnreadError(f"could not be read ({error.strerror})", gone=True) from None
    if not data:
        raise _UnreadError("never came", gone=True)
    return data


def _said(header: bytes) -> dict[str, Any]:
    try:
        said = json.loads(header)
    except (ValueError, RecursionError):
        raise _UnreadError("is no JSON") from None
    if not isinstance(said, dict):
        raise _UnreadError("is no JSON object")
    if is_deeper(said, DEEPEST):
        raise _UnreadError("is nested too deep")
    return said


def is_deeper(data: Any, levels: int) -> bool:
    """Return whether lists and dictionaries are nested more than ``levels`` deep."""
    here = [data]
    for _ in range(levels + 1):
        here = [item for value in here for item in _items(value)]
    return bool(here)


def _items(value: Any) -> Iterable[Any]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
    return ()
