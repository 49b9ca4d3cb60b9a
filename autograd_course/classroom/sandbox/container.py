"""Docker or Podman: the same promise by flags, where there is no Bubblewrap.

A container may not make namespaces of its own, so that every submission gets a new one: safe, but
each waits for Python to import PyTorch.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autograd_course.classroom.sandbox import places
from autograd_course.classroom.sandbox.backend import ZYGOTE, Start
from autograd_course.classroom.sandbox.limits import Limits

IMAGE = "debian:stable-slim"  # only its loader and C library are used: Python comes from here
MEETING = "/course/control"


@dataclass(frozen=True)
class Container:
    """A container for each submission; ``engine`` is ``docker`` or ``podman``."""

    engine: str
    limits: Limits = field(default_factory=Limits)
    name: str = "container"
    separates: bool = False

    def start(self, meeting: Path) -> Start:
        """Return the command; see :class:`Backend`."""
        return Start(tuple(self._command(meeting)))

    def _command(self, meeting: Path) -> Iterator[str]:
        limits = self.limits
        yield from (self.engine, "run", "--rm", "--init", "--network=none", "--read-only")
        yield from ("--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=65534:65534")
        yield from (f"--pids-limit={limits.processes}", f"--memory={limits.memory + (1 << 30)}")
        yield from ("--ipc=private", "--tmpfs", f"/tmp:rw,size={limits.disk}")
        for name, value in places.environment().items():
            yield from ("--env", f"{name}={value}")
        for shown in places.shown():
            yield from ("--volume", f"{shown.source}:{shown.target}:ro")
        yield from ("--volume", f"{meeting}:{MEETING}", "--entrypoint", str(places.interpreter()))
        yield from (IMAGE, "-B", "-s", "-m", ZYGOTE, MEETING, "plain")


def engine() -> str | None:
    """Return the container engine whose daemon answers, or ``None``."""
    for name in ("docker", "podman"):
        if shutil.which(name):
            asked = subprocess.run([name, "info"], capture_output=True)
            if asked.returncode == 0:
                return name
    return None
