"""Start a template process in a sandbox, and connect to it.

The template starts in the background. The first access to the connection waits until the template
is ready.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from autograd_classroom.sandbox.backend import Backend, SandboxError, Start
from autograd_classroom.sandbox.fork_server.control import heard, say

_PATIENCE = 180.0  # seconds, because importing PyTorch on a busy machine is slow


class Twin:
    """A fork of a template. ``control`` is the connection to this fork."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control

    def close(self) -> None:
        """Close the connection, which ends the fork and its child."""
        self.control.close()


class Template:
    """A template process in a sandbox."""

    def __init__(self, backend: Backend) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="autograd-course-")
        meeting = Path(self._folder.name) / "control"
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._door.bind(str(meeting))
        os.chmod(meeting, 0o666)  # the user `nobody` must be able to connect; the folder is private
        self._door.listen(1)
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self.backend = backend
        self._start = backend.start(meeting)
        self.process = self._started(self._start)

    @property
    def has_ended(self) -> bool:
        """Whether the template has ended, for example because this machine does not allow it."""
        return self.process.poll() is not None

    @functools.cached_property
    def control(self) -> socket.socket:
        """The connection to the template. The first access waits until the template is ready.

        Raises SandboxError if the template does not start.
        """
        if self._door.fileno() < 0:
            raise SandboxError("the sandbox did not start.")
        try:
            return self._met(self._door)
        finally:
            self._close_door()

    def twin(self) -> Twin:
        """Fork the template and return the fork. Another process can then control the fork.

        Raises SandboxError if the template has ended.
        """
        control = self.control
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_PATIENCE)
        with contextlib.suppress(OSError):
            with theirs:
                say(control, {"twin": True}, theirs.fileno())
            if heard(ours) is not None:
                return Twin(ours)
        ours.close()
        raise SandboxError("the sandbox is gone.")

    def _started(self, start: Start) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            start.command, env=start.environment, stdin=subprocess.DEVNULL,
            stdout=self.errors, stderr=self.errors, start_new_session=True,
        )  # fmt: skip

    def _met(self, door: socket.socket) -> socket.socket:
        """Wait until the template is ready, and return the connection to it."""
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
        said = self._last_line()
        self.errors.close()
        raise SandboxError(f"the sandbox did not start: {said}")

    def _last_line(self) -> str:
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"it ended with code {self.process.returncode}."

    def _end(self) -> None:
        if self._start.ending:
            subprocess.run(self._start.ending, capture_output=True)
        if self.process.poll() is None:
            # Bubblewrap forks. If only the first process ended now, the second would wait forever.
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _close_door(self) -> None:
        self._door.close()
        self._folder.cleanup()

    def close(self) -> None:
        """End the template and all other processes in the sandbox."""
        if "control" in vars(self):
            self.control.close()
        self._close_door()
        self._end()
        self.errors.close()
