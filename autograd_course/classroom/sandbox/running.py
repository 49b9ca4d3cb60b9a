"""Run a sandbox: its template process, and one child in it at a time."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from autograd_course.classroom.protocol import Frame, Malformed, read, write
from autograd_course.classroom.sandbox.backend import Backend, Start
from autograd_course.classroom.sandbox.ends import told
from autograd_course.classroom.sandbox.limits import Limits
from autograd_course.classroom.zygote.control import heard, say

_PATIENCE = 180.0  # seconds; importing PyTorch on a busy machine takes its time
_GRACE = 20.0  # seconds for the template to end a child


class SandboxError(RuntimeError):
    """The sandbox itself failed: no fault of a submission."""


class Child:
    """One child from outside: ask, and it answers, or there is a reason why not."""

    def __init__(self, channel: socket.socket, control: socket.socket, limits: Limits) -> None:
        self._channel, self._control, self._limits = channel, control, limits
        self._how: dict[str, Any] | None = None

    def ask(self, question: Frame) -> Frame | Malformed:
        """Return the answer to a question; after one that is malformed the child is ended."""
        unsent = write(self._channel, question, self._limits.wall)
        came = unsent or read(self._channel, self._limits.wall)
        if isinstance(came, Malformed):
            return Malformed(
                told(came, self.end(gone=came.gone), self._limits), came.gone, came.late
            )
        return came

    def end(self, *, gone: bool = False) -> dict[str, Any]:
        """End the child and all that it started; return what the template tells of it."""
        if self._how is None:
            self._control.settimeout(_GRACE)
            try:
                say(self._control, {"end": True, "gone": gone})
                order = heard(self._control)
            except OSError as error:
                raise SandboxError(f"the sandbox does not answer: {error}.") from error
            if order is None or "failed" in order.said:
                why = "it is gone" if order is None else order.said["failed"]
                raise SandboxError(f"the sandbox could not run a submission: {why}.")
            self._channel.close()
            self._how = order.said
        return self._how


class Sandbox:
    """A template in a sandbox, started on first use and again whenever it is gone."""

    def __init__(self, backend: Backend, limits: Limits | None = None) -> None:
        self.backend, self.limits = backend, limits or Limits()
        self._running: _Template | None = None

    @contextlib.contextmanager
    def child(self) -> Iterator[Child]:
        """Run a block with a new child, which is ended with it."""
        template = self._running = self._running or _Template(self.backend)
        ours, theirs = socket.socketpair()
        try:
            with ours:
                with theirs:
                    say(template.control, {"begin": self.limits.to_dict()}, theirs.fileno())
                child = Child(ours, template.control, self.limits)
                yield child
                child.end()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise SandboxError(f"the sandbox is gone: {error}.") from error
            raise
        if not self.backend.separates:
            self.close()

    def start(self) -> Self:
        """Start the template now."""
        self._running = self._running or _Template(self.backend)
        return self

    def close(self) -> None:
        """End the template, and with it all that runs in the sandbox."""
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


class _Template:
    def __init__(self, backend: Backend) -> None:
        with tempfile.TemporaryDirectory(prefix="autograd-course-") as folder:
            meeting = Path(folder) / "control"
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
                door.bind(str(meeting))
                os.chmod(meeting, 0o666)  # nobody's too; the folder around it is ours alone
                door.listen(1)
                self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
                self.process = self._started(backend.start(meeting))
                self.control = self._met(door)

    def _started(self, start: Start) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            start.command, env=start.environment, stdin=subprocess.DEVNULL,
            stdout=self.errors, stderr=self.errors, start_new_session=True,
        )  # fmt: skip

    def _met(self, door: socket.socket) -> socket.socket:
        """Return the connection to the template once it is ready."""
        door.settimeout(1.0)
        for _ in range(int(_PATIENCE)):
            with contextlib.suppress(TimeoutError):
                control, _ = door.accept()
                control.settimeout(_PATIENCE)
                with contextlib.suppress(OSError):
                    if heard(control) is not None:
                        return control
                control.close()
                break
            if self.process.poll() is not None:
                break
        self._end()
        raise SandboxError(f"the sandbox did not start: {self._last_line()}")

    def _last_line(self) -> str:
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"it ended with code {self.process.returncode}."

    def _end(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.control.close()
        self._end()
        self.errors.close()
