"""Fork a child for one submission: the one process in which its code runs."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import NoReturn, Self

from autograd_course.classroom.sandbox.limits import Limits
from autograd_course.classroom.zygote import bounds, kernel, seclusion, syscalls

Life = Callable[[socket.socket], None]  # what a child does with its socket


class Child:
    """A running child: the keeper that waits for it, and itself, both kept to distinguish them from
    later processes with the same number.
    """

    def __init__(self, keeper: int, process: int) -> None:
        self._keeper, self.keeper_ends = keeper, os.pidfd_open(keeper)
        self._child: int | None = None
        with contextlib.suppress(ProcessLookupError):  # it may have ended by now
            self._child = os.pidfd_open(process)

    def ended(self, grace: float) -> bool:
        """End the child, and all in its namespace; say whether it had not done so by itself."""
        if self._child is None or select.select([self.keeper_ends], [], [], grace)[0]:
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._child, signal.SIGKILL)
            return True
        return False

    def reaped(self) -> int:
        """Wait for the keeper; return the child's exit code, 128 and more for a signal."""
        _, status = os.waitpid(self._keeper, 0)
        return _as_a_shell(status)  # where they share a namespace, the child may kill the keeper

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for held in (self.keeper_ends, self._child):
            if held is not None:
                os.close(held)


def born(
    channel: socket.socket, limits: Limits, life: Life, *, secluded: bool, filtered: bool = False
) -> Child:
    """Fork a child that lives with its socket and then ends; it never comes back from here.

    Between template and child is a keeper, whose next child is the first process of its namespace.
    When this process ends, all its processes end.
    """
    reads, writes = os.pipe()
    keeper = os.fork()
    if keeper == 0:
        os.close(reads)
        _keep(writes, channel, limits, life, secluded, filtered)
    os.close(writes)
    with os.fdopen(reads, "rb") as told:
        said = told.read()
    if not said.isdigit():
        os.waitpid(keeper, 0)
        raise OSError(said.decode() or "the keeper of a child ended early")
    return Child(keeper, int(said))


def _keep(
    told: int,
    channel: socket.socket,
    limits: Limits,
    life: Life,
    secluded: bool,
    filtered: bool,
) -> NoReturn:
    """Seclude what comes, fork the child, wait for it, and end as it ended."""
    try:
        os.setsid()
        if secluded:
            seclusion.leave()
        kernel.die_with_parent(signal.SIGKILL)
        waits, goes = os.pipe()
        process = os.fork()
    except BaseException as error:
        os.write(told, f"{type(error).__name__}: {error}".encode())
        os._exit(1)
    if process == 0:
        os.close(told)
        os.close(goes)
        os.read(waits, 1)  # until its number is told: what it runs may kill its keeper
        os.close(waits)
        _live(channel, limits, life, secluded, filtered)
    channel.close()
    os.write(told, str(process).encode())
    os.close(told)
    os.close(goes)
    _, status = os.waitpid(process, 0)
    os._exit(_as_a_shell(status))


def _as_a_shell(status: int) -> int:
    """Return the exit code of a process that was waited for, 128 and more for a signal."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _live(
    channel: socket.socket, limits: Limits, life: Life, secluded: bool, filtered: bool
) -> NoReturn:
    """Be the child: nothing is open but the socket, nothing is printed, nothing runs at the end."""
    try:
        os.setsid()  # a signal to its process group would reach the keeper too
        taken = bounds.address_space()
        kernel.die_with_parent(signal.SIGKILL)
        if secluded:
            seclusion.settle(limits)
        _close_all_but(channel)
        bounds.bind(limits, taken)
        if filtered:
            syscalls.refuse()
        os.chdir("/tmp")
        life(channel)
    finally:
        os._exit(0)


def _close_all_but(channel: socket.socket) -> None:
    """Point the three standard streams to nowhere, and close whatever else is open."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    own = channel.fileno()
    os.closerange(3, own)
    os.closerange(own + 1, 1 << 16)
