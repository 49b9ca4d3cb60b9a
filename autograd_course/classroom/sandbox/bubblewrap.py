"""Bubblewrap: namespaces of the kernel's, no daemon, a start in milliseconds."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograd_course.classroom.sandbox import places
from autograd_course.classroom.sandbox.backend import ZYGOTE, Start
from autograd_course.classroom.zygote import syscalls
from autograd_course.folders import OURS

UNFILTERED = (
    "The kernel of this machine cannot filter system calls for the sandbox, so an answer can take "
    "more memory than its limit."
)
MEETING = "/course/control"  # where the control socket lies inside
# What a child does first; in a root folder that is only changed, say, the kernel refuses it.
_LEAVES = f"""
import sys
sys.path[:0] = sys.argv[1:]
from {ZYGOTE} import seclusion
seclusion.leave()
"""


@dataclass(frozen=True)
class Bubblewrap:
    """No network, own processes, a read-only root of only what is needed, an empty environment.

    Each submission gets namespaces of its own within (``zygote.seclusion``). Root must be able to
    take another identity for that; other users need none of their own.
    """

    name: str = "bubblewrap"
    separates: bool = True

    @property
    def gap(self) -> str:
        """Whether the kernel can refuse system calls; see :class:`Backend`."""
        return "" if syscalls.available() else UNFILTERED

    def start(self, meeting: Path) -> Start:
        """Return the command; see :class:`Backend`."""
        return Start(tuple(_command(meeting)), {})


def works() -> bool:
    """Whether ``bwrap`` is installed and allowed to make namespaces, and so are processes in it."""
    if shutil.which("bwrap") is None:
        return False
    python = [str(places.interpreter()), "-I", "-S", "-B"]
    leaving = ["-c", _LEAVES, *(str(package.parent) for package in OURS)]
    trial = [*_namespaces(), "--ro-bind", "/", "/", "--proc", "/proc", *python, *leaving]
    return subprocess.run(["bwrap", *trial], capture_output=True).returncode == 0


def _command(meeting: Path) -> Iterator[str]:
    yield from (shutil.which("bwrap") or "bwrap", *_namespaces(), "--clearenv")
    for name, value in places.environment().items():
        yield from ("--setenv", name, value)
    for link, target in places.links().items():
        yield from ("--symlink", target, link)
    yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")
    # Mapped and shared, /dev/zero is memory that no limit counts.
    yield from ("--dev-bind", "/dev/null", "/dev/zero")
    for folder in sorted({p for shown in places.shown() for p in shown.target.parents}):
        if folder != Path("/"):  # one that bwrap makes by itself may be closed to nobody
            yield from ("--perms", "0755", "--dir", str(folder))
    for shown in places.shown():
        yield from ("--ro-bind", str(shown.source), str(shown.target))
    for folder in places.hidden():
        yield from ("--perms", "0500", "--tmpfs", str(folder), "--remount-ro", str(folder))
    yield from ("--bind", str(meeting), MEETING)
    yield from ("--remount-ro", "/", "--remount-ro", "/dev", "--chdir", "/")
    yield from (str(places.interpreter()), "-B", "-s", "-m", ZYGOTE, MEETING, "secluded")


def _namespaces() -> Iterator[str]:
    yield from ("--unshare-ipc", "--unshare-net", "--unshare-pid", "--unshare-uts")
    yield from ("--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
    if os.geteuid() == 0:  # what it takes to become nobody, and to end what nobody runs
        yield from ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_KILL")
    else:
        yield "--unshare-user"
