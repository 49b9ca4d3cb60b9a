"""Docker or Podman give the same protection through options, on machines without Bubblewrap.

A container cannot create namespaces of its own, so every submission gets a new container. This is
safe, but each submission has to wait until Python has imported PyTorch.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from autograd_classroom.sandbox import mounts
from autograd_classroom.sandbox.backend import FORK_SERVER, SandboxError, Start
from autograd_classroom.sandbox.image import image
from autograd_classroom.sandbox.limits import Limits

MEETING = "/course/control"
_USERS = range(61184, 65520)  # numbers that no person has


@dataclass(frozen=True)
class Container:
    """A sandbox with a container for each submission. ``engine`` is ``docker`` or ``podman``."""

    engine: str
    limits: Limits = field(default_factory=Limits)
    name: str = "container"
    separates: bool = False

    @property
    def gap(self) -> str:
        """Return an empty string, as the engine itself limits all memory. See :class:`Backend`."""
        return ""

    def start(self, meeting: Path) -> Start:
        """Return the command; see :class:`Backend`."""
        called = f"autograd-course-{secrets.token_hex(8)}"
        command = [*self._walls(), f"--name={called}", "--volume", f"{meeting}:{MEETING}"]
        inside = ["-B", "-s", "-m", FORK_SERVER, MEETING, "contained"]
        # The command only waits for the container, so ending it does not end the container.
        return Start((*command, image(self.engine), *inside), ending=(self.engine, "kill", called))

    def works(self) -> bool:
        """Whether the engine is available and runs our Python with these options."""
        if shutil.which(self.engine) is None:
            return False
        try:
            trial = [*self._walls(), image(self.engine), "-I", "-S", "-c", ""]
        except SandboxError:
            return False
        return subprocess.run(trial, capture_output=True).returncode == 0

    def _walls(self) -> Iterator[str]:
        """Yield the options and the program for running Python, up to the image.

        Python is the container's first process, so no signal from a later process can end or stop
        it. For this reason, ``--init`` is not used.
        """
        limits = self.limits
        yield from (self.engine, "run", "--rm", "--network=none", "--read-only")
        if self.engine == "podman":  # by default, it makes /run, /var/tmp and /etc/passwd writable
            yield from ("--read-only-tmpfs=false", "--passwd=false")
        yield from ("--cap-drop=ALL", "--security-opt=no-new-privileges", f"--user={_nobody()}")
        yield from (f"--pids-limit={limits.processes}", f"--memory={limits.memory + (1 << 30)}")
        for what, most in (("nofile", limits.open_files), ("nproc", limits.processes)):
            yield f"--ulimit={what}={most}:{most}"
        yield from ("--ipc=private", f"--shm-size={limits.disk}")
        # Lesson 14 builds and loads operators in this folder. Podman cannot limit the number of
        # files.
        yield from ("--tmpfs", f"/tmp:rw,exec,size={limits.disk}")
        for name, value in mounts.environment().items():
            yield from ("--env", f"{name}={value}")
        for shown in mounts.shown():
            yield from ("--volume", f"{shown.source}:{shown.target}:ro")
        for folder in mounts.hidden():
            yield from ("--tmpfs", f"{folder}:ro,size=4k,mode=0500")
        yield from ("--workdir=/", "--entrypoint", str(mounts.interpreter()))


def _nobody() -> str:
    """Return a new user for each container, because the kernel counts processes per user."""
    return f"{_USERS.start + secrets.randbelow(len(_USERS))}:65534"


@cache
def engine() -> str | None:
    """Return a container engine that works on this machine, or ``None``."""
    return next((name for name in ("docker", "podman") if Container(name).works()), None)
