"""Isolate a child from all other processes and their files, and limit its resources."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from autograd_classroom.sandbox.fork_server import kernel
from autograd_classroom.sandbox.limits import Limits

NOBODY = 65534


def leave() -> None:
    """Move this process into new namespaces.

    The new process namespace takes effect at the next fork. If the process runs as root, it first
    switches to the user ``nobody``, because the kernel does not limit the number of root's
    processes.
    """
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        kernel.can_write_own_maps()
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(kernel.NEW_USER | kernel.NEW_MOUNTS | kernel.NEW_PROCESSES | kernel.NEW_IPC)
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny")
    (own / "uid_map").write_text(f"{user} {user} 1")
    (own / "gid_map").write_text(f"{group} {group} 1")


def settle(limits: Limits) -> None:
    """Mount the writable folders, hide ``/proc``, and then give up all privileges."""
    kernel.mounts_are_private()
    shared = limits.disk // 8
    for place, size in (("/tmp", limits.disk - shared), ("/dev/shm", shared)):
        kernel.mount_memory(place, f"size={size},nr_inodes={limits.files},mode=0700")
    # The kernel allows a new /proc only if all of the old one is visible. A child needs neither.
    kernel.mount_memory("/proc", "size=4k,nr_inodes=1,mode=0500")
    kernel.leave_keyring()
    kernel.drop_capabilities()


_PAGE = resource.getpagesize()


def address_space() -> int:
    """Return the number of bytes of address space that this process uses."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * _PAGE


def bind(limits: Limits, taken: int) -> None:
    """Set the limits for this process and for each process that it starts.

    ``taken`` is the number of bytes of address space that this process already uses.
    """
    for what, most in (
        (resource.RLIMIT_AS, taken + limits.memory),
        (resource.RLIMIT_CPU, limits.cpu),
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_FSIZE, limits.disk),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))
