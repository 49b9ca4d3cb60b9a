"""How much memory a child's processes take together, beyond what they share with the template."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_PARTS = ("RssAnon:", "RssShmem:")


def beyond(template: int) -> int:
    """Return the bytes that all other processes here hold, each beyond the template's own."""
    return sum(max(0, held - template) for held in map(held_by, _others()))


def held_by(process: int) -> int:
    """Return the bytes of memory that a process holds and no file stands for; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(_PARTS))


def _others() -> Iterator[int]:
    own = os.getpid()
    yield from (int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own)
