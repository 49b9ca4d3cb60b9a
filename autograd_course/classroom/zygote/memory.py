"""How much memory a child's processes take together, beyond what they share with the template;
and how that shared memory lies, so that forking is quick.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autograd_course.classroom.zygote import kernel

_LARGE = 1 << 21  # bytes of a large page
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


def compact() -> None:
    """Move what this process holds into large pages, as far as the kernel knows how.

    A fork copies, and an end frees, a table with an entry for each page: of 230 MiB in small ones,
    that takes longer than many an answer.
    """
    for start, end in _own_memory():
        first, last = -(-start // _LARGE) * _LARGE, end // _LARGE * _LARGE
        if first < last:
            kernel.in_large_pages(first, last - first)


def _own_memory() -> Iterator[tuple[int, int]]:
    """Yield where the memory lies that can be written and that no file stands for."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, rights, *_, name = f"{line} ".split(" ", 5)
        if rights == "rw-p" and name.strip() in ("", "[heap]"):
            start, end = place.split("-")
            yield int(start, 16), int(end, 16)


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
