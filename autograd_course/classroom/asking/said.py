"""What a trial says, as data: a status and a sentence. The judge makes the verdict of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """What takes the place of a verdict where the grader is absent."""

    status: str
    message: str


def wrong(text: str) -> Said:
    """Say that the answer is wrong."""
    return Said("wrong", text)


def unfinished(text: str) -> Said:
    """Say that the answer is not written yet."""
    return Said("not attempted", text)


def failed(text: str) -> Said:
    """Say that the trial itself failed."""
    return Said("grader failed", text)
