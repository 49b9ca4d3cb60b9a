"""Limits on the size of a student's submission. They are far above what the course needs."""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Limits:
    """The maximum number of files and their maximum sizes in bytes, per student.

    ``ratio`` is the maximum compression ratio in a zip.
    """

    files: int = 500
    entries: int = 20_000
    depth: int = 8
    file: int = 32 * MEGABYTE
    total: int = 128 * MEGABYTE
    ratio: int = 200
    small: int = MEGABYTE  # up to this size, any ratio is allowed: empty lines compress well


LIMITS = Limits()
