"""The maximum size of a student's submission. It is far more than a course needs."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Limits:
    """Maximum counts and sizes in bytes per student. ``ratio`` is unpacked : packed in a zip."""

    files: int = 500
    entries: int = 20_000
    depth: int = 8
    file: int = 32 * MEGABYTE
    total: int = 128 * MEGABYTE
    ratio: int = 200
    small: int = MEGABYTE  # smaller zips may have any ratio, because empty lines compress well


LIMITS = Limits()
