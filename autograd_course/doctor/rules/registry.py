"""The rule catalogue: names, severities, and the pure functions that decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.finding import Finding, Severity

Family = Literal[
    "contract", "linearity", "values", "layout", "state", "order", "transforms", "efficiency"
]


@dataclass(frozen=True)
class Seen:
    """What a rule saw: the message and its evidence; severity and hint where not the rule's own."""

    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity | None = None
    hint: str = ""


Decide = Callable[[Evidence], Seen | None]


@dataclass(frozen=True)
class Rule:
    """One entry of the catalogue.

    ``after`` names families whose errors explain this rule's finding, or single rules; such a
    finding is not reported again. ``explains`` says the same from the other side: which families'
    or rules' findings an error of this rule explains. ``by_design`` are those that this rule
    explains even where it is declared to be broken by design.
    """

    name: str
    family: Family
    severity: Severity
    title: str
    hint: str
    lesson: str
    decide: Decide
    after: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()
    by_design: tuple[str, ...] = ()

    def __call__(self, evidence: Evidence) -> Finding | None:
        """Return the finding, or ``None`` where the evidence does not show this fault."""
        seen = self.decide(evidence)
        if seen is None:
            return None
        return Finding(
            rule=self.name,
            severity=seen.severity or self.severity,
            message=seen.message,
            evidence=dict(seen.evidence),
            hint=seen.hint or self.hint,
            lesson=self.lesson,
        )


RULES: dict[str, Rule] = {}


def rule(
    name: str,
    family: Family,
    severity: Severity,
    title: str,
    *,
    hint: str,
    lesson: str,
    after: tuple[str, ...] = (),
    explains: tuple[str, ...] = (),
    by_design: tuple[str, ...] = (),
) -> Callable[[Decide], Decide]:
    """Register a deciding function under a fixed name; work is done in order of registration."""

    def register(decide: Decide) -> Decide:
        if name in RULES:
            raise ValueError(f"rule {name!r} is registered twice")
        RULES[name] = Rule(
            name, family, severity, title, hint, lesson, decide, after, explains, by_design
        )
        return decide

    return register
