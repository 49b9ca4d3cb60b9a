"""The result of a trial as data: a status and a sentence. The judge turns it into a verdict."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """The substitute for a verdict in a process that has no grader."""

    status: str
    message: str


def wrong(text: str) -> Said:
    """Report that the answer is wrong."""
    return Said("wrong", text)


def unfinished(text: str) -> Said:
    """Report that the answer has not been written yet."""
    return Said("not attempted", text)


def failed(text: str) -> Said:
    """Report that the trial itself failed."""
    return Said("grader failed", text)
