"""How the authoring commands say what is wrong and what repairs it."""

from __future__ import annotations

from pathlib import Path


class AuthoringError(Exception):
    """A source that cannot be built; the message names file, line, problem and repair."""

    def __init__(self, path: Path, line: int, problem: str, repair: str) -> None:
        super().__init__(f"{path}:{line}: {problem}; {repair}")
