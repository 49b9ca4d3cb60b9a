"""The messages to and from the template. They are short texts, and can carry a socket.

The order ``{"begin": limits}`` comes with the new child's socket. The template answers the order
``{"end": true}`` with a description of how the child ended. The order ``{"twin": true}`` comes with
a control socket. A fork of the template then follows the orders on this socket.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any

_LONGEST = 4096  # maximum bytes of one message


@dataclass(frozen=True)
class Order:
    """A message from outside, and the socket that came with it, if any."""

    said: dict[str, Any]
    channel: socket.socket | None = None


def say(control: socket.socket, message: dict[str, Any], hand: int | None = None) -> None:
    """Send a message, which can carry a file descriptor."""
    socket.send_fds(control, [json.dumps(message).encode()], [] if hand is None else [hand])


def heard(control: socket.socket) -> Order | None:
    """Return the next message, or ``None`` if the other side has closed the connection."""
    data, descriptors, _, _ = socket.recv_fds(control, _LONGEST, 1)
    if not data:
        return None
    channel = socket.socket(fileno=descriptors[0]) if descriptors else None
    return Order(json.loads(data), channel)
