"""The messages to the template and from it: short texts, and sockets that they pass on.

An order is ``{"begin": limits}``, with the new child's socket, or ``{"end": true}``. The template
answers the latter with how the child ended. ``{"twin": true}`` comes with a control socket. A fork
of the template then follows the orders on this socket.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any

_LONGEST = 4096  # bytes of one message


@dataclass(frozen=True)
class Order:
    """A message from outside, and the socket that came with it."""

    said: dict[str, Any]
    channel: socket.socket | None = None


def say(control: socket.socket, message: dict[str, Any], hand: int | None = None) -> None:
    """Send a message, and a file descriptor with it."""
    socket.send_fds(control, [json.dumps(message).encode()], [] if hand is None else [hand])


def heard(control: socket.socket) -> Order | None:
    """Return the next message, or ``None`` if the other side is gone."""
    data, descriptors, _, _ = socket.recv_fds(control, _LONGEST, 1)
    if not data:
        return None
    channel = socket.socket(fileno=descriptors[0]) if descriptors else None
    return Order(json.loads(data), channel)
