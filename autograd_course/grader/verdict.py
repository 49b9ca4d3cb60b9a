"""What the grader found out about one answer, before it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from autograd_doctor import Finding
from autograd_doctor.repair import Repair

Status = Literal["passed", "wrong", "not attempted", "grader failed"]


@dataclass(frozen=True)
class Verdict:
    """A status, one sentence that explains it, and the finding where a rule names the fault.

    ``sample`` names the kind of input that the fault was seen on. ``warnings`` are what the doctor
    warns of in an answer that passed. ``printed`` is what the answer printed in one forward and one
    backward pass. ``remarks`` are for the instructor: what the code has that no answer needs;
    ``grade`` makes none. ``raised`` says that an exception of the answer's code is the reason.
    ``search`` finds the change that makes a wrong answer right, in the process that judged it.
    """

    status: Status
    message: str
    finding: Finding | None = None
    sample: str = ""
    remarks: tuple[str, ...] = ()
    warnings: tuple[Finding, ...] = ()
    printed: str = ""
    raised: bool = False
    search: Callable[[], Repair | None] | None = field(default=None, repr=False, compare=False)


def wrong(message: str) -> Verdict:
    """Return the verdict on an answer that cannot be right."""
    return Verdict("wrong", message)


def raised_error(message: str) -> Verdict:
    """Return the verdict on an answer whose own code raised an exception."""
    return Verdict("wrong", message, raised=True)


def unfinished(message: str) -> Verdict:
    """Return the verdict on an answer that is still to be written."""
    return Verdict("not attempted", message)


def failed(message: str) -> Verdict:
    """Return the verdict where the grader itself could not do its work."""
    return Verdict("grader failed", message)


def fault(finding: Finding | None) -> Verdict | None:
    """Return the verdict that a finding makes, ``None`` where there is none."""
    return None if finding is None else Verdict("wrong", finding.message, finding)
