"""The results of the judge's experiments in the worker. The judge turns them into verdicts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """The result of an experiment. The worker has no grader, so it cannot create a verdict."""

    status: str
    message: str


def wrong(text: str) -> Said:
    """Report that the answer is wrong."""
    return Said("wrong", text)


def unfinished(text: str) -> Said:
    """Report that the answer has not been written yet."""
    return Said("not attempted", text)


def failed(text: str) -> Said:
    """Report that the experiment itself failed."""
    return Said("grader failed", text)
