"""A file on disk or in a zip, before it is parsed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """A file: its display path, its bytes or the problem with it, and its time.

    For an entry of a zip, the path is relative to the zip until the zip's own path is added.
    """

    source: str
    data: bytes = b""
    modified: float = 0.0
    problem: str = ""
