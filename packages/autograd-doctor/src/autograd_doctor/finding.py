"""The result of a rule."""

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
    """A mistake or a remark, with evidence.

    ``rule`` is the name of a rule (``autograd-course explain RULE``). ``message`` describes the
    problem. ``evidence`` holds an example (input, index, expected, actual, line of code …) as plain
    data. ``hint`` says what to change or where to look. ``lesson`` is the name of the lesson about
    this problem. ``search`` finds the :attr:`repair`. Its argument is a mapping from names to the
    arguments of other calls for which the repair must be right. By default, it varies the example.
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
    """Return findings without a repair and without references to the process that created them."""
    return tuple(replace(finding, search=None) for finding in findings)
