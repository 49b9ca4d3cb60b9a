"""What a rule finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or worth knowing, with the evidence that shows it.

    ``rule`` is a name of the catalogue (``autograd-course explain RULE``). ``message`` says what
    was seen. ``evidence`` holds an example (input, index, expected, actual, line of code …) as
    plain data. ``hint`` says what to change or where to look. ``lesson`` names the
    lesson that teaches it.
    """

    rule: str
    severity: Severity
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    hint: str = ""
    lesson: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON-compatible data."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "evidence": dict(self.evidence),
            "hint": self.hint,
            "lesson": self.lesson,
        }
