"""What reading yields: a file on disk or in a zip, before anybody looks into it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """A file's path, for people to read, its bytes or what is wrong with it, and its time.

    Of an entry of a zip, the path is that in the zip until the zip's own path is added.
    """

    source: str
    data: bytes = b""
    modified: float = 0.0
    problem: str = ""
