"""Measure the total resource usage of a child's processes by sampling each process.

The kernel limits each process. To limit the sum, it needs a control group, which few machines
delegate. Every process below the template belongs to the child, because it cannot leave its
namespace. A process may start and end between two samples. If another process waited for it, the
kernel has added its time to that process. Otherwise, it has at least used up a process number, and
these numbers are also limited.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autograd_classroom.sandbox.limits import Limits

_SECOND = os.sysconf("SC_CLK_TCK")
_HELD = ("RssAnon:", "RssShmem:", "HugetlbPages:")


@dataclass(frozen=True)
class _Process:
    parent: int
    own: float  # seconds of CPU time
    waited: float  # CPU time of the ended children for which it has waited
    began: int


class Meter:
    """The total usage of all processes below this one, measured since the meter was created.

    Each process shares ``template`` bytes with the template, so only the memory beyond them counts.
    """

    def __init__(self, template: int) -> None:
        self._template = template
        self._own: dict[tuple[int, int], float] = {}  # includes processes that have ended
        self.memory, self.cpu, self.started = 0, 0.0, 0

    def look(self) -> None:
        """Take one sample of every process."""
        seen = {number: found for number in _numbers() if (found := _read(number))}
        below = list(_below(os.getpid(), seen))
        status = [_status(number) for number in below]
        self._own |= {(number, seen[number].began): seen[number].own for number in below}
        waited = sum(seen[number].own + seen[number].waited for number in below)
        self.cpu = max(self.cpu, waited, sum(self._own.values()))
        beyond = sum(max(0, _held(lines) - self._template) for lines in status)
        self.memory = max(self.memory, beyond)
        self.started = max([self.started, *map(_inner_number, status)])

    def over(self, limits: Limits) -> str:
        """Return the name of a limit that the total exceeds, or an empty string."""
        used = {"memory": self.memory, "cpu": self.cpu, "started": self.started}
        return next((name for name, much in used.items() if much > getattr(limits, name)), "")


def held_by(process: int) -> int:
    """Return how many bytes of a process's memory no file backs, or 0 if the process is gone."""
    return _held(_status(process))


def _held(status: list[str]) -> int:
    return sum(int(line.split()[1]) * 1024 for line in status if line.startswith(_HELD))


def _inner_number(status: list[str]) -> int:
    """Return a process's number in the child's own namespace, which also numbers threads."""
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
    return _Process(int(fields[1]), own, others, int(fields[19]))


def _status(process: int) -> list[str]:
    try:
        return Path(f"/proc/{process}/status").read_text(errors="replace").splitlines()
    except OSError:
        return []


def _numbers() -> Iterator[int]:
    yield from (int(name) for name in os.listdir("/proc") if name.isdigit())
