"""The error of the authoring commands, which says what is wrong and how to repair it."""

from __future__ import annotations

from pathlib import Path


class AuthoringError(Exception):
    """A source cannot be built. The message names the file, line, problem and repair."""

    def __init__(self, path: Path, line: int, problem: str, repair: str) -> None:
        super().__init__(f"{path}:{line}: {problem}; {repair}")
