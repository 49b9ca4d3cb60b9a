"""Measure the total resource usage of a child's processes by sampling each process.

The kernel limits the resources of each process. It can limit the total only with a control group,
which most machines do not let users create. All descendants of the template belong to the child,
because a process cannot leave its namespace. A process can start and end between two samples. If
its parent waited for it, the kernel has added its CPU time to the parent's CPU time. Otherwise, the
process has at least used up a process id, and the number of process ids is also limited.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autograd_classroom.sandbox.limits import Limits

_SECOND = os.sysconf("SC_CLK_TCK")
_FORK_WITHOUT_EXEC = 0x40  # a flag of the kernel
_HELD = ("RssAnon:", "RssShmem:", "HugetlbPages:")


@dataclass(frozen=True)
class _Process:
    parent: int
    own: float  # seconds of CPU time
    waited: float  # CPU time of ended children that it has waited for
    began: int
    is_fork: bool  # whether it has not executed another program


class Meter:
    """The total resource usage of this process's descendants since the meter was created.

    A fork shares ``template`` bytes with the template, so only its other memory counts. A process
    that has executed another program can fork, too. Such a fork has not mapped the template's
    libraries, or it appears only after the other program has run for a while.
    """

    def __init__(self, template: int) -> None:
        self._template = template
        self._libraries = _libraries(_status(os.getpid()))
        self._shares: dict[tuple[int, int], bool] = {}  # with the template, for each process
        self._executed = False  # whether some process has executed another program
        self._own: dict[tuple[int, int], float] = {}  # includes processes that have ended
        self.memory, self.cpu, self.started = 0, 0.0, 0

    def look(self) -> None:
        """Take one sample of every process."""
        seen = {number: found for number in _numbers() if (found := _read(number))}
        below = sorted(_below(os.getpid(), seen), key=lambda number: seen[number].began)
        status = [_status(number) for number in below]
        for number, lines in zip(below, status, strict=True):
            shares = not self._executed and _libraries(lines) >= self._libraries
            self._shares.setdefault((number, seen[number].began), shares)
        self._executed |= not all(seen[number].is_fork for number in below)
        self._own |= {(number, seen[number].began): seen[number].own for number in below}
        waited = sum(seen[number].own + seen[number].waited for number in below)
        self.cpu = max(self.cpu, waited, sum(self._own.values()))
        beyond = (
            max(0, _held(lines) - (self._template if self._is_shared(number, seen) else 0))
            for number, lines in zip(below, status, strict=True)
        )
        self.memory = max(self.memory, sum(beyond))
        self.started = max([self.started, *map(_inner_number, status)])

    def _is_shared(self, number: int, seen: Mapping[int, _Process]) -> bool:
        return seen[number].is_fork and self._shares[number, seen[number].began]

    def over(self, limits: Limits) -> str:
        """Return the name of a limit that the total usage exceeds, or an empty string."""
        used = {"memory": self.memory, "cpu": self.cpu, "started": self.started}
        return next((name for name, much in used.items() if much > getattr(limits, name)), "")


def held_by(process: int) -> int:
    """Return how many bytes of memory a process uses, excluding memory mapped from files.

    If the process has ended, return 0.
    """
    return _held(_status(process))


def _held(status: list[str]) -> int:
    return sum(int(line.split()[1]) * 1024 for line in status if line.startswith(_HELD))


def _libraries(status: list[str]) -> int:
    """Return the size of the libraries that a process has mapped, in KiB."""
    return next((int(line.split()[1]) for line in status if line.startswith("VmLib:")), 0)


def _inner_number(status: list[str]) -> int:
    """Return a process's id in the child's namespace. Linux also gives threads such ids."""
    for line in status:
        if line.startswith("NSpid:"):
            _, _, *inner = line.split()
            return int(inner[0]) if inner else 0
    return 0


def _below(process: int, seen: Mapping[int, _Process]) -> Iterator[int]:
    for number, found in seen.items():
        if found.parent == process:
            yield number
            yield from _below(number, seen)


def _read(process: int) -> _Process | None:
    try:
        stat = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the preceding name may contain any character
    user, system, waited, waited_system = map(int, fields[11:15])
    own, others = (user + system) / _SECOND, (waited + waited_system) / _SECOND
    is_fork = bool(int(fields[6]) & _FORK_WITHOUT_EXEC)
    return _Process(int(fields[1]), own, others, int(fields[19]), is_fork)


def _status(process: int) -> list[str]:
    """Return the kernel's report on a process.

    If the first thread has ended, only the reports on the other threads contain the memory.
    """
    lines = _lines(Path(f"/proc/{process}/status"))
    if lines and not any(line.startswith(_HELD) for line in lines):
        for thread in Path(f"/proc/{process}/task").glob("*/status"):
            other = _lines(thread)
            if any(line.startswith(_HELD) for line in other):
                return other
    return lines


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _numbers() -> Iterator[int]:
    yield from (int(name) for name in os.listdir("/proc") if name.isdigit())
