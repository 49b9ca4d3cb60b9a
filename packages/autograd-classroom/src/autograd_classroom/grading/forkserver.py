"""Fork workers from a copy of this process that has already imported the modules they need.

A new Python process needs seconds to import PyTorch. A forked process does not. The command makes
the copy before this process has open files or a gradebook, so the copy contains only modules. If
PyTorch's autograd engine has already started threads, it refuses to work in a forked process. The
copy notices this, and each worker is then a new process. Forking works only on Linux. This module
identifies each process by a file descriptor, because Linux can reuse process ids.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NoReturn, Self

import torch

from autograd_classroom.grading.executor import FEWER, GradingError
from autograd_classroom.grading.ignore_sigint import ignore_sigint
from autograd_classroom.grading.pool import Process, started
from autograd_course.shell.importing import importing

_LONGEST, _MOST = 1 << 16, 8  # maximum bytes and file descriptors per message
_UNFIT = b"autograd does not work in a forked process"


class ChildProcess:
    """A forked process. It has the ``multiprocessing.Process`` methods that we need."""

    def __init__(self, ends: int) -> None:
        self._ends = ends  # a file descriptor that becomes readable when the process ends

    def is_alive(self) -> bool:
        """Return whether the process is still running."""
        return not select.select([self._ends], [], [], 0)[0]

    def join(self, seconds: float | None = None) -> None:
        """Wait for the process to end, for at most ``seconds`` seconds."""
        select.select([self._ends], [], [], seconds)

    def terminate(self) -> None:
        """Ask the process to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process immediately."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._ends, number)

    def __del__(self) -> None:
        os.close(self._ends)


class ForkServer:
    """A copy of this process that forks a new process for each function call.

    The copy ends when you call :meth:`close` or when this process ends.
    """

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, ignore_sigint():
            self._process = os.fork()
            if self._process == 0:
                self._control.close()
                _alone(_serve, theirs)

    def start(self, target: Callable[..., None], *args: Any) -> Process:
        """Call a function in a new process. The arguments can include sockets and connections.

        If autograd does not work in a forked process, start a new Python process instead. Raises
        GradingError if the process cannot be started.
        """
        handed, packed = _packed(target, args)
        try:
            socket.send_fds(self._control, [packed], handed)
            said, ends, _, _ = socket.recv_fds(self._control, _LONGEST, 1)
        except OSError as error:
            raise _none(str(error)) from None
        if said == _UNFIT:
            return started(target, *args)
        if not ends:
            raise _none(said.decode() or "what they are forked from is gone")
        return ChildProcess(ends[0])

    def close(self) -> None:
        """End the copy, but not the processes that it has forked."""
        self._control.close()
        os.waitpid(self._process, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _none(why: str) -> GradingError:
    return GradingError(f"no worker process can be started ({why}): {FEWER}")


def _alone(live: Callable[..., None], *args: Any) -> NoReturn:
    """Call ``live`` in a forked process, and then exit without the original process's cleanup."""
    try:
        live(*args)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def _serve(control: socket.socket) -> None:
    """Fork once for each request, until the other side closes the connection."""
    with importing():
        from autograd_course.grader.catalogue import CATALOGUE

        dict(CATALOGUE)  # imports every exercise

    fit = _autograd_works_in_a_fork()
    while True:
        packed, handed, _, _ = socket.recv_fds(control, _LONGEST, _MOST)
        if not packed:
            return
        try:
            if fit:
                _fork(control, packed, handed)
            else:
                control.send(_UNFIT)
        finally:
            for descriptor in handed:
                os.close(descriptor)
        _reap()


def _fork(control: socket.socket, packed: bytes, handed: list[int]) -> None:
    """Fork a process for a request, and send a descriptor of it or the reason why it failed."""
    try:
        process = os.fork()
    except OSError as error:
        control.send(str(error).encode())
        return
    if process == 0:
        control.close()
        _alone(_call, packed, handed)
    ends = os.pidfd_open(process)
    socket.send_fds(control, [b"born"], [ends])
    os.close(ends)


def _autograd_works_in_a_fork() -> bool:
    """Return whether the autograd engine works in a process forked from this one."""
    try:
        process = os.fork()
    except OSError:
        return True  # the fork of a worker then reports the error
    if process == 0:
        status = 1
        try:
            x = torch.ones((), requires_grad=True)
            torch.autograd.grad(x.clone(), x)
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(process, 0)[1] == 0


def _reap() -> None:
    """Reap the child processes that have ended, without waiting for running ones."""
    with contextlib.suppress(ChildProcessError):
        while os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG) is not None:
            pass


def _call(packed: bytes, handed: list[int]) -> None:
    target, args = _Unpacker(packed, handed).load()
    target(*args)


def _packed(target: Callable[..., None], args: tuple[Any, ...]) -> tuple[list[int], bytes]:
    file = io.BytesIO()
    packer = _Packer(file)
    packer.dump((target, args))
    return packer.handed, file.getvalue()


class _Packer(pickle.Pickler):
    """A pickler that replaces each socket or connection with the index of its descriptor."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.handed: list[int] = []

    def persistent_id(self, value: Any) -> tuple[str, int] | None:
        if not isinstance(value, socket.socket | Connection):
            return None
        self.handed.append(value.fileno())
        return type(value).__name__, len(self.handed) - 1


class _Unpacker(pickle.Unpickler):
    def __init__(self, packed: bytes, handed: list[int]) -> None:
        super().__init__(io.BytesIO(packed))
        self._handed = handed

    def persistent_load(self, key: tuple[str, int]) -> Any:
        kind, place = key
        descriptor = self._handed[place]
        return Connection(descriptor) if kind == "Connection" else socket.socket(fileno=descriptor)
