"""Run code in a Docker or Podman container, for machines without Bubblewrap.

The container's options provide the same protection as Bubblewrap. A process in a container cannot
create new namespaces, so every submission gets a new container. This is safe but slow, because
Python must import PyTorch for each submission.

The container image contains only symbolic links and empty folders for mounts. The engine mounts
Python, PyTorch and the C library from this machine, so it downloads nothing.
"""

from __future__ import annotations

import io
import secrets
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from autograd_classroom.sandbox import mounts
from autograd_classroom.sandbox.backend import FORK_SERVER, SandboxError, Start
from autograd_classroom.sandbox.limits import Limits

# When Podman mounts a file system on one of these folders, the folder keeps its mode.
_FOLDERS = {"dev": 0o755, "proc": 0o755, "sys": 0o755, "tmp": 0o1777}


def image(engine: str) -> str:
    """Return the name of the image. Create the image if the engine does not have it.

    Raises SandboxError if the engine cannot create the image.
    """
    content = _content()
    name = f"localhost/autograd-course-sandbox:{zlib.crc32(content):08x}"
    if _run(engine, "image", "inspect", name).returncode != 0:
        made = _run(engine, "import", "-", name, content=content)
        if made.returncode != 0:
            said = made.stderr.decode(errors="replace").strip()
            raise SandboxError(f"{engine} could not make the sandbox's image: {said}")
    return name


def _content() -> bytes:
    """Return the image's root folder as a tar file. Identical root folders give identical bytes."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as packed:
        for entry in _entries():
            packed.addfile(entry)
    return data.getvalue()


def _entries() -> Iterator[tarfile.TarInfo]:
    for name, mode in _FOLDERS.items():
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        yield entry
    for link, target in mounts.links().items():
        entry = tarfile.TarInfo(link.lstrip("/"))
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        yield entry


def _run(*command: str, content: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, input=content, capture_output=True)


MEETING = "/course/control"
_USERS = range(61184, 65520)  # user ids that are not assigned to people


@dataclass(frozen=True)
class Container:
    """A sandbox that runs each submission in a new container.

    ``engine`` is ``docker`` or ``podman``.
    """

    engine: str
    limits: Limits = field(default_factory=Limits)
    name: str = "container"
    separates: bool = False

    @property
    def gap(self) -> str:
        """Return an empty string, because the engine limits all memory. See :class:`Backend`."""
        return ""

    def start(self, meeting: Path) -> Start:
        """Return the command that starts a container. See :class:`Backend`."""
        called = f"autograd-course-{secrets.token_hex(8)}"
        command = [*self._walls(), f"--name={called}", "--volume", f"{meeting}:{MEETING}"]
        inside = ["-B", "-s", "-m", FORK_SERVER, MEETING, "contained"]
        # The command only waits for the container, so killing it does not end the container.
        return Start((*command, image(self.engine), *inside), ending=(self.engine, "kill", called))

    def works(self) -> bool:
        """Return whether the engine can run Python in a container with these options."""
        if shutil.which(self.engine) is None:
            return False
        try:
            trial = [*self._walls(), image(self.engine), "-I", "-S", "-c", ""]
        except SandboxError:
            return False
        return subprocess.run(trial, capture_output=True).returncode == 0

    def _walls(self) -> Iterator[str]:
        """Yield the command that runs Python in a container, up to the image name.

        Python is the container's first process, so signals from other processes in the container
        cannot end or stop it. With the option ``--init``, Python would not be the first process.
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
    """Return a random user id, because the kernel counts the processes of each user separately."""
    return f"{_USERS.start + secrets.randbelow(len(_USERS))}:65534"


@cache
def engine() -> str | None:
    """Return the name of a container engine that works on this machine, or ``None``."""
    return next((name for name in ("docker", "podman") if Container(name).works()), None)
