"""Resource limits that the kernel enforces for a process."""

from __future__ import annotations

import resource
from pathlib import Path

from autograd_classroom.sandbox.limits import Limits

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
