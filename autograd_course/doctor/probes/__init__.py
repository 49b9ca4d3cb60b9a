"""What is examined beyond one call's contract and values: one module for each question.

A probe takes the session and the evidence found so far, and returns the evidence with its own part
filled in. It runs the user's code and judges nothing; whatever that code raises is evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.session import Session

Level = Literal["standard", "full"]
Probe = Callable[[Session, Evidence], Evidence]

STANDARD: tuple[Probe, ...] = ()
FULL: tuple[Probe, ...] = (*STANDARD,)

PROBES: dict[Level, tuple[Probe, ...]] = {"standard": STANDARD, "full": FULL}
