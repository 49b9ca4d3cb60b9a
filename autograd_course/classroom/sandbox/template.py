"""Start a template process in a sandbox, and meet it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
from pathlib import Path

from autograd_course.classroom.sandbox.backend import Backend, SandboxError, Start
from autograd_course.classroom.zygote.control import heard

_PATIENCE = 180.0  # seconds; importing PyTorch on a busy machine takes its time


class Template:
    """A template process: ``control`` is the connection to it."""

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
        said = self._last_line()
        self.errors.close()
        raise SandboxError(f"the sandbox did not start: {said}")

    def _last_line(self) -> str:
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"it ended with code {self.process.returncode}."

    def _end(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End it, and with it all that runs in the sandbox."""
        self.control.close()
        self._end()
        self.errors.close()
