"""What a rule finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from autograd_doctor.repair import Repair

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or worth knowing, with the evidence that shows it.

    ``rule`` is a name of the catalogue (``autograd-course explain RULE``). ``message`` says what
    was seen. ``evidence`` holds an example (input, index, expected, actual, line of code …) as
    plain data. ``hint`` says what to change or where to look. ``lesson`` names the
    lesson that teaches it. ``search`` finds the :attr:`repair`. It takes other calls on which the
    repair must be right, as a mapping of names to arguments; by default, the example is varied.
    """

    rule: str
    severity: Severity
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    hint: str = ""
    lesson: str = ""
    search: Callable[..., Repair | None] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def repair(self) -> Repair | None:
        """The change of the Function's own code that removes this error, if one is found.

        The first use searches for it, for a second at most. Small edits of ``backward`` and
        ``forward`` are tried, and what is found is verified on other inputs and shapes. Nothing is
        written to the class or to its file.
        """
        return self.search() if self.search else None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "search": None}  # what it would call stays in this process

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON-compatible data."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "evidence": dict(self.evidence),
            "hint": self.hint,
            "lesson": self.lesson,
            "repair": self.repair.to_dict() if self.repair else None,
        }


def without_search(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings that show no repair, and hold nothing of the process that made them."""
    return tuple(replace(finding, search=None) for finding in findings)
