"""The error that authoring commands raise. It explains what is wrong and how to fix it."""

from __future__ import annotations

from pathlib import Path


class AuthoringError(Exception):
    """Raised when a source cannot be built.

    The message names the file, the line, the problem and the fix.
    """

    def __init__(self, path: Path, line: int, problem: str, repair: str) -> None:
        super().__init__(f"{path}:{line}: {problem}; {repair}")
