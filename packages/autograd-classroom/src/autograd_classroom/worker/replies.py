"""The results of the judge's experiments in the worker. The judge turns them into verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autograd_doctor.finding import Finding


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


def found(rule: str, message: str, evidence: Mapping[str, Any], hint: str) -> Finding:
    """Report that the answer breaks a rule. The judge replaces the severity and the lesson."""
    return Finding(rule, "error", message, evidence, hint, "")


def failed(text: str) -> Said:
    """Report that the experiment itself failed."""
    return Said("grader failed", text)
