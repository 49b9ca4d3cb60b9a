"""The messages to and from the template. Each is a short JSON object, optionally with a socket.

The command ``{"begin": limits}`` comes with the socket for a new child. The template responds to
``{"end": true}`` with a description of how the child ended. With ``{"slow": true}``, it also
imports some slow modules that this child had to import. The command ``{"twin": true}`` comes
with a new control socket. The template then forks itself, and the fork executes the commands from
this socket.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any

_LONGEST = 4096  # maximum bytes of one message


@dataclass(frozen=True)
class Order:
    """A message, and the socket that came with it, if any."""

    said: dict[str, Any]
    channel: socket.socket | None = None


def say(control: socket.socket, message: dict[str, Any], hand: int | None = None) -> None:
    """Send a message, optionally with a file descriptor."""
    socket.send_fds(control, [json.dumps(message).encode()], [] if hand is None else [hand])


def heard(control: socket.socket) -> Order | None:
    """Wait for the next message. Return ``None`` if the other side has closed the connection."""
    data, descriptors, _, _ = socket.recv_fds(control, _LONGEST, 1)
    if not data:
        return None
    channel = socket.socket(fileno=descriptors[0]) if descriptors else None
    return Order(json.loads(data), channel)
