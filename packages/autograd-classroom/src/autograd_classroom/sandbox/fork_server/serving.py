"""Run the template, which starts a child on request, watches it, and ends it on request."""

from __future__ import annotations

import os
import select
import socket
import time
from dataclasses import dataclass, replace
from typing import Any

from autograd_classroom.sandbox.fork_server.control import Order, heard, say
from autograd_classroom.sandbox.fork_server.spawn import Child, Life, born
from autograd_classroom.sandbox.fork_server.usage import Meter, held_by
from autograd_classroom.sandbox.limits import Limits

_LOOK = 0.05  # seconds between two measurements of a child's resource usage
_GRACE = 1.0  # seconds that a child has to exit on its own after it has closed its socket
_FORGOTTEN = 10  # the template ends a child after this multiple of ``Limits.whole``


@dataclass(frozen=True)
class Template:
    """The settings that all children share.

    Each child calls ``life``. ``secluded`` is true if each child has its own namespaces.
    ``filtered`` is true if the kernel refuses some of the child's system calls.
    """

    life: Life
    secluded: bool
    filtered: bool
    held: int  # bytes of the template's own memory


def serve(control: socket.socket, template: Template) -> None:
    """Execute commands until the other side closes the connection."""
    while (order := heard(control)) is not None:
        if order.channel is None:
            say(control, {"ended": "never began"})
            continue
        if "twin" in order.said:
            _fork(control, order.channel, template)
        elif not _one(control, template, order):
            return


def _fork(control: socket.socket, other: socket.socket, template: Template) -> None:
    """Fork this template. The fork executes the commands from the socket ``other``."""
    with other:
        if os.fork() == 0:
            try:
                control.close()
                say(other, {"ready": True})
                serve(other, replace(template, held=held_by(os.getpid())))
            finally:
                os._exit(0)


def _one(control: socket.socket, template: Template, order: Order) -> bool:
    """Start one child, and watch it until it ends. Return whether to wait for more commands."""
    channel, limits = order.channel, Limits(**order.said["begin"])
    assert channel is not None
    try:
        with channel:
            child = born(
                channel, limits, template.life,
                secluded=template.secluded, filtered=template.filtered,
            )  # fmt: skip
    except OSError as error:
        return _told(control, {"failed": str(error)})
    with child:
        return _told(control, _ended(control, template, child, limits))


def _told(control: socket.socket, message: dict[str, Any]) -> bool:
    """Respond to the "end" command with a message. Return whether the connection is still open.

    If the command has not arrived yet, wait for it.
    """
    if not message.pop("asked", False) and heard(control) is None:
        return False
    say(control, message)
    return True


def _ended(
    control: socket.socket, template: Template, child: Child, limits: Limits
) -> dict[str, Any]:
    """Watch a child until it ends. Return its exit code and, if it was killed, the reason.

    The template kills the child if the child exceeds a limit or if a command to end it arrives.
    """
    meter, until = Meter(template.held), time.monotonic() + _FORGOTTEN * limits.whole
    while True:
        ready, _, _ = select.select([control.fileno(), child.keeper_ends], [], [], _LOOK)
        if child.keeper_ends in ready:
            return {"code": child.reaped()}
        if control.fileno() in ready:
            order = heard(control)
            killed = child.ended(_GRACE if order and order.said.get("gone") else 0.0)
            return {"code": child.reaped(), "killed": killed, "asked": True}
        meter.look()
        if (over := meter.over(limits)) or time.monotonic() > until:
            child.ended(0.0)
            return {"code": child.reaped(), "over": over}
