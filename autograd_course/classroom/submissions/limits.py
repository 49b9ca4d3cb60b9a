"""The maximum size of a student's submission, which is far more than a course needs."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Limits:
    """Counts and sizes in bytes for each student. ``ratio`` is unpacked : packed in a zip."""

    files: int = 500
    entries: int = 20_000
    depth: int = 8
    file: int = 32 * MEGABYTE
    total: int = 128 * MEGABYTE
    ratio: int = 200
    small: int = MEGABYTE  # smaller zips may have any ratio: empty lines compress well


LIMITS = Limits()
