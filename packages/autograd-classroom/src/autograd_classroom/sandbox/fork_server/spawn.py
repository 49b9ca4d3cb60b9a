"""Fork a child for one submission. Only the child runs the submission's code."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import NoReturn, Self

from autograd_classroom.sandbox.fork_server import confinement, kernel, syscalls
from autograd_classroom.sandbox.limits import Limits

Life = Callable[[socket.socket], None]  # the function that a child runs with its socket


class Child:
    """A running child, and the keeper process that waits for it.

    File descriptors identify both processes, because the kernel reuses process ids.
    """

    def __init__(self, keeper: int, process: int) -> None:
        self._keeper, self.keeper_ends = keeper, os.pidfd_open(keeper)
        self._child: int | None = None
        with contextlib.suppress(ProcessLookupError):  # the child may already have ended
            self._child = os.pidfd_open(process)

    def ended(self, grace: float) -> bool:
        """Kill the child and all processes in its namespace. Return whether this was necessary.

        The child first has ``grace`` seconds to exit on its own.
        """
        if self._child is None or select.select([self.keeper_ends], [], [], grace)[0]:
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._child, signal.SIGKILL)
            return True
        return False

    def reaped(self) -> int:
        """Wait for the keeper. Return the child's exit code, or 128 + N if signal N killed it."""
        _, status = os.waitpid(self._keeper, 0)
        return _as_a_shell(status)  # in a shared namespace, the child can kill the keeper

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for held in (self.keeper_ends, self._child):
            if held is not None:
                os.close(held)


def born(
    channel: socket.socket, limits: Limits, life: Life, *, secluded: bool, filtered: bool = False
) -> Child:
    """Fork a child that calls ``life`` with its socket and then ends.

    This process forks a keeper, and the keeper forks the child. The child is the first process in
    its namespace. When the child ends, all other processes in the namespace also end.
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
    """Run as the keeper: fork an isolated child, wait for it, and exit with the same status."""
    try:
        os.setsid()
        if secluded:
            confinement.leave()
        kernel.die_with_parent(signal.SIGKILL)
        waits, goes = os.pipe()
        process = os.fork()
    except BaseException as error:
        os.write(told, f"{type(error).__name__}: {error}".encode())
        os._exit(1)
    if process == 0:
        os.close(told)
        os.close(goes)
        # The child's code could kill the keeper, so wait until the keeper has sent the id.
        os.read(waits, 1)
        os.close(waits)
        _live(channel, limits, life, secluded, filtered)
    channel.close()
    os.write(told, str(process).encode())
    os.close(told)
    os.close(goes)
    _, status = os.waitpid(process, 0)
    os._exit(_as_a_shell(status))


def _as_a_shell(status: int) -> int:
    """Convert a wait status to an exit code, or to 128 + N if signal N killed the process."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _live(
    channel: socket.socket, limits: Limits, life: Life, secluded: bool, filtered: bool
) -> NoReturn:
    """Run as the child. Keep only the socket open, print nothing, and run no exit handlers."""
    try:
        os.setsid()  # otherwise, a signal to the child's process group would also reach the keeper
        taken = confinement.address_space()
        kernel.die_with_parent(signal.SIGKILL)
        if secluded:
            confinement.settle(limits)
        _close_all_but(channel)
        confinement.bind(limits, taken)
        if filtered:
            syscalls.refuse()
        os.chdir("/tmp")
        life(channel)
    finally:
        os._exit(0)


def can_leave() -> bool:
    """Return whether a child can create its own namespaces."""
    process = os.fork()
    if process == 0:
        try:
            confinement.leave()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(process, 0)[1] == 0


def _close_all_but(channel: socket.socket) -> None:
    """Redirect the standard streams to the null device, and close all files except ``channel``."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    own = channel.fileno()
    os.closerange(3, own)
    os.closerange(own + 1, 1 << 16)
