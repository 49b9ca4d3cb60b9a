"""A file on disk or in a zip that has not been parsed yet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """A file: its display path, its time, and either its bytes or the problem with it.

    The path of an entry in a zip is relative to the zip until the zip's own path is added.
    """

    source: str
    data: bytes = b""
    modified: float = 0.0
    problem: str = ""
