"""Run a sandbox, which contains a template process and at most one child process at a time.

If the child does not answer a question, :func:`told` explains the reason to the student.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from autograd_classroom.protocol import Frame, Malformed, read, write
from autograd_classroom.sandbox.backend import Backend, SandboxError
from autograd_classroom.sandbox.fork_server.control import Order, heard, say
from autograd_classroom.sandbox.limits import MIB, Limits
from autograd_classroom.sandbox.template import Template, Twin

_OVER: Mapping[str, Callable[[Limits], str]] = {
    "memory": lambda limits: (
        f"the code took more than the {limits.memory // MIB} MiB of memory it may take."
    ),
    "cpu": lambda limits: (
        f"the code was stopped: its processes computed for more than {limits.cpu} s together."
    ),
    "whole": lambda limits: (
        f"the code was stopped: its answers took more than {limits.whole:g} s together."
    ),
    "started": lambda limits: (
        f"the code was stopped: it started more than {limits.started:,} processes or threads."
    ),
}


def told(came: Malformed, how: Mapping[str, Any], limits: Limits) -> str:
    """Return a sentence that explains why the child did not send a valid answer.

    ``came`` describes the invalid answer, and ``how`` describes how the child ended.
    """
    if how.get("over") in _OVER:
        return _OVER[how["over"]](limits)
    if came.late:
        return (
            f"the code did not answer within {limits.wall:g} s. Is there an endless loop? If the "
            "code is only slow, make it faster."
        )
    if came.gone and not how.get("killed"):
        return _ended(int(how.get("code", 0)), limits)
    return f"the answer {came.reason}."


def _ended(code: int, limits: Limits) -> str:
    if code == 128 + signal.SIGKILL:
        return (  # the kernel does not report which limit the code exceeded
            f"the code was stopped: it computed for more than {limits.cpu} s, took too much, "
            "or killed itself."
        )
    if code > 128:
        return f"the code crashed Python ({_name(code - 128)}), as by writing to foreign memory."
    return f"the code ended the process before it had answered (exit code {code})."


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_GRACE = 20.0  # seconds that the template has to end a child
_LEAST = 1e-3  # seconds; for a socket, 0 would mean "do not wait"


class Child:
    """A child process in the sandbox, which runs one submission and answers questions about it."""

    def __init__(self, channel: socket.socket, control: socket.socket, limits: Limits) -> None:
        self._channel, self._control, self.limits = channel, control, limits
        self._left = limits.whole  # seconds that remain for all answers
        self._how: dict[str, Any] | None = None
        self._slow = False  # whether the child had to import slow modules

    def ask(self, question: Frame) -> Frame | Malformed:
        """Ask a question, and return the answer. If the answer is malformed, end the child."""
        seconds = min(self.limits.wall, self._left)
        came = self._answer(question, seconds)
        if isinstance(came, Malformed):
            whole = came.late and seconds < self.limits.wall
            how = self.end(gone=came.gone)
            how |= {"over": how.get("over") or ("whole" if whole else "")}
            return Malformed(told(came, how, self.limits), came.gone, came.late)
        self._slow = self._slow or came.said.get("slow") is True
        return came

    def _answer(self, question: Frame, seconds: float) -> Frame | Malformed:
        """Ask a question with a time limit. Subtract the elapsed time from the remaining time."""
        until = time.monotonic() + seconds
        try:
            unsent = write(self._channel, question, max(seconds, _LEAST))
            return unsent or read(self._channel, until - time.monotonic())
        finally:
            self._left -= seconds - (until - time.monotonic())

    def end(self, *, gone: bool = False) -> dict[str, Any]:
        """End the child and its processes. Return the template's report about how it ended."""
        if self._how is None:
            order = self._told(gone)
            if order is None or "failed" in order.said:
                why = "it is gone" if order is None else order.said["failed"]
                raise SandboxError(f"the sandbox could not run a submission: {why}.")
            self._how = order.said
        return self._how

    def _told(self, gone: bool) -> Order | None:
        self._control.settimeout(_GRACE)
        try:
            say(self._control, {"end": True, "gone": gone, "slow": self._slow})
            return heard(self._control)
        except OSError as error:
            raise SandboxError(f"the sandbox does not answer: {error}.") from error
        finally:
            self._channel.close()


class Sandbox:
    """A template process in a sandbox. It starts on first use, and restarts if it has exited.

    ``running`` is a template that is already running.
    """

    def __init__(
        self, backend: Backend, limits: Limits | None = None, running: Twin | None = None
    ) -> None:
        self.backend, self.limits = backend, limits or Limits()
        self._running: Template | Twin | None = running

    @contextlib.contextmanager
    def child(self, limits: Limits | None = None) -> Iterator[Child]:
        """Start a child, and end it after the ``with`` block.

        ``limits`` replaces the limits of the sandbox for this child.
        """
        child = self._begun(self._control(), limits or self.limits)
        try:
            yield child
        finally:
            try:
                child.end()
            except SandboxError:
                self.close()
                raise
            if not self.backend.separates:
                self.close()

    def _begun(self, control: socket.socket, limits: Limits) -> Child:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                say(control, {"begin": limits.to_dict()}, theirs.fileno())
            except OSError as error:
                ours.close()
                self.close()
                raise SandboxError(f"the sandbox is gone: {error}.") from error
        return Child(ours, control, limits)

    def start(self) -> Self:
        """Start the template, and wait until the template is ready."""
        self._control()
        return self

    def _control(self) -> socket.socket:
        self._running = self._running or Template(self.backend)
        try:
            return self._running.control
        except SandboxError:
            self.close()
            raise

    def close(self) -> None:
        """End the template and all other processes in the sandbox."""
        if self._running is not None:
            self._running.close()
            self._running = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()
