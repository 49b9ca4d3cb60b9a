"""The result of a rule: a finding."""

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
    """A mistake in a Function, or a note about the Function, with evidence.

    ``rule`` is the name of a rule (see ``autograd-course explain RULE``). ``message`` describes the
    problem. ``evidence`` holds an example (input, index, expected, actual, line of code …) as plain
    data. ``hint`` says what to change or where to look. ``lesson`` is the name of the lesson about
    this problem. ``search`` finds the :attr:`repair`. Its argument maps descriptions to the
    arguments of other calls for which the repair must be correct. By default, these calls are
    variations of the example.
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
        """The change to the Function's code that removes this error, if the search finds one.

        The first access starts the search, which takes at most a second. The search tries small
        edits of ``backward`` and ``forward``, and verifies an edit on other inputs and shapes. It
        does not change the class or its file.
        """
        return self.search() if self.search else None

    def __getstate__(self) -> dict[str, Any]:
        # the callable behind the search stays in this process
        return {**self.__dict__, "search": None}

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as a JSON-compatible dictionary."""
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
    """Return findings without repairs and without references to the process that created them."""
    return tuple(replace(finding, search=None) for finding in findings)
