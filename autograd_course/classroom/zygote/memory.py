"""How much memory a child's processes take together, beyond what they share with the template."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_PARTS = ("RssAnon:", "RssShmem:")


@dataclass(frozen=True)
class _Process:
    parent: int
    held: int


def beyond(template: int) -> int:
    """Return the bytes that all processes below this one hold, each beyond the template's own.

    Without a namespace of processes all others of the machine are in sight, which are nobody's.
    """
    seen = {number: found for number in _numbers() if (found := _read(number))}
    return sum(max(0, seen[number].held - template) for number in _below(os.getpid(), seen))


def held_by(process: int) -> int:
    """Return the bytes of memory that a process holds and no file stands for; 0 if it is gone."""
    found = _read(process)
    return found.held if found else 0


def _below(process: int, seen: Mapping[int, _Process]) -> Iterator[int]:
    for number, found in seen.items():
        if found.parent == process:
            yield number
            yield from _below(number, seen)


def _read(process: int) -> _Process | None:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return None
    (parent,) = (int(line.split()[1]) for line in lines if line.startswith("PPid:"))
    held = sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(_PARTS))
    return _Process(parent, held)


def _numbers() -> Iterator[int]:
    yield from (int(name) for name in os.listdir("/proc") if name.isdigit())
