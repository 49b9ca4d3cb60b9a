"""Run code in Bubblewrap, which isolates processes with kernel namespaces and starts quickly."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograd_classroom.folders import OURS
from autograd_classroom.sandbox import mounts
from autograd_classroom.sandbox.backend import FORK_SERVER, Start
from autograd_classroom.sandbox.fork_server import syscalls

UNFILTERED = (
    "The kernel of this machine cannot filter system calls for the sandbox, so an answer can take "
    "more memory than its limit."
)
MEETING = "/course/control"  # the path of the control socket inside the sandbox
# The first steps of a child. The kernel refuses them if the root folder is only a chroot.
_LEAVES = f"""
import sys
sys.path[:0] = sys.argv[1:]
from {FORK_SERVER} import confinement
confinement.leave()
"""


@dataclass(frozen=True)
class Bubblewrap:
    """A sandbox without network access and with a minimal, read-only root folder.

    Inside the sandbox, each submission also gets its own namespaces
    (``sandbox.fork_server.confinement``). If root started the sandbox, a child first switches to
    another user. Otherwise, the child keeps its user.
    """

    name: str = "bubblewrap"
    separates: bool = True

    @property
    def gap(self) -> str:
        """Return a warning if the kernel cannot filter system calls. See :class:`Backend`."""
        return "" if syscalls.available() else UNFILTERED

    def start(self, meeting: Path) -> Start:
        """Return the ``bwrap`` command that starts the template. See :class:`Backend`."""
        return Start(tuple(_command(meeting)), {})


def is_installed() -> bool:
    """Return whether the ``bwrap`` command exists."""
    return shutil.which("bwrap") is not None


def works() -> bool:
    """Return whether ``bwrap`` is installed and both it and its processes can create namespaces."""
    if not is_installed():
        return False
    python = [str(mounts.interpreter()), "-I", "-S", "-B"]
    leaving = ["-c", _LEAVES, *(str(package.parent) for package in OURS)]
    trial = [*_namespaces(), "--ro-bind", "/", "/", "--proc", "/proc", *python, *leaving]
    return subprocess.run(["bwrap", *trial], capture_output=True).returncode == 0


def _command(meeting: Path) -> Iterator[str]:
    yield from (shutil.which("bwrap") or "bwrap", *_namespaces(), "--clearenv")
    for name, value in mounts.environment().items():
        yield from ("--setenv", name, value)
    for link, target in mounts.links().items():
        yield from ("--symlink", target, link)
    yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")
    # None of the limits count the memory in a shared mapping of /dev/zero, so hide this device.
    yield from ("--dev-bind", "/dev/null", "/dev/zero")
    for folder in sorted({p for shown in mounts.shown() for p in shown.target.parents}):
        if folder != Path("/"):  # otherwise, bwrap might make it readable only by its owner
            yield from ("--perms", "0755", "--dir", str(folder))
    for shown in mounts.shown():
        yield from ("--ro-bind", str(shown.source), str(shown.target))
    for folder in mounts.hidden():
        yield from ("--perms", "0500", "--tmpfs", str(folder), "--remount-ro", str(folder))
    yield from ("--bind", str(meeting), MEETING)
    yield from ("--remount-ro", "/", "--remount-ro", "/dev", "--chdir", "/")
    yield from (str(mounts.interpreter()), "-B", "-s", "-m", FORK_SERVER, MEETING, "secluded")


def _namespaces() -> Iterator[str]:
    yield from ("--unshare-ipc", "--unshare-net", "--unshare-pid", "--unshare-uts")
    yield from ("--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
    if os.geteuid() == 0:  # to become the user `nobody`, and to end its processes
        yield from ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_KILL")
    else:
        yield "--unshare-user"
