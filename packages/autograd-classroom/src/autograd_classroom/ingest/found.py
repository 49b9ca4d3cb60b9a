"""A submitted file, on disk or in a zip, that has not been parsed yet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """A file with its display path, its modification time, and either its bytes or a problem.

    For an entry in a zip, the path is relative to the zip until the zip's own path is prepended.
    """

    source: str
    data: bytes = b""
    modified: float = 0.0
    problem: str = ""
