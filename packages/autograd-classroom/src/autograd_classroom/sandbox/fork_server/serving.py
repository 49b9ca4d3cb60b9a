"""Run the template, which starts a child on request, watches it, and ends it on request."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
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

    Each child calls ``life``. If a child had to import slow modules, the template calls ``prepare``
    to import them for all later children. ``secluded`` is true if each child has its own
    namespaces. ``filtered`` is true if the kernel refuses some of the child's system calls.
    """

    life: Life
    prepare: Callable[[], None]
    secluded: bool
    filtered: bool
    held: int  # bytes of the template's own memory


def serve(control: socket.socket, template: Template) -> None:
    """Execute commands until the other side closes the connection."""
    while (order := heard(control)) is not None:
        if order.channel is None:
            say(control, {"ended": "never began"})
        elif "twin" in order.said:
            _fork(control, order.channel, template)
        elif (end := _one(control, template, order)) is None:
            return
        elif end.said.get("slow"):
            template.prepare()
            template = replace(template, held=held_by(os.getpid()))


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


def _one(control: socket.socket, template: Template, order: Order) -> Order | None:
    """Start one child, watch it until it ends, and report how it ended.

    Return the "end" command, or ``None`` if the other side has closed the connection.
    """
    channel, limits = order.channel, Limits(**order.said["begin"])
    assert channel is not None
    try:
        with channel:
            child = born(
                channel, limits, template.life,
                secluded=template.secluded, filtered=template.filtered,
            )  # fmt: skip
    except OSError as error:
        how, end = {"failed": str(error)}, None
    else:
        with child:
            how, end = _ended(control, template, child, limits)
    end = end or heard(control)
    if end is not None:
        say(control, how)
    return end


def _ended(
    control: socket.socket, template: Template, child: Child, limits: Limits
) -> tuple[dict[str, Any], Order | None]:
    """Watch a child until it ends. Return its exit code and, if it was killed, the reason.

    The template kills the child if the child exceeds a limit or if an "end" command arrives, which
    is also returned.
    """
    meter, until = Meter(template.held), time.monotonic() + _FORGOTTEN * limits.whole
    while True:
        ready, _, _ = select.select([control.fileno(), child.keeper_ends], [], [], _LOOK)
        if child.keeper_ends in ready:
            return {"code": child.reaped()}, None
        if control.fileno() in ready:
            order = heard(control)
            killed = child.ended(_GRACE if order and order.said.get("gone") else 0.0)
            return {"code": child.reaped(), "killed": killed}, order
        meter.look()
        if (over := meter.over(limits)) or time.monotonic() > until:
            child.ended(0.0)
            return {"code": child.reaped(), "over": over}, None
