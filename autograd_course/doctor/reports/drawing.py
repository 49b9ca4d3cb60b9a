"""Which picture shows what is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.reports.both_jacobians import Jacobians, both_jacobians
from autograd_course.doctor.rules import RULES
from autograd_course.doctor.verdict import OF_VALUES, Findings


def drawn(
    found: Findings, verdicts: Sequence[Findings], seen: Sequence[Evidence]
) -> Jacobians | None:
    """Return the Jacobians that show the first finding, if that is an error of values."""
    first = next(iter(found), None)
    if first is None or RULES[first.rule].family not in OF_VALUES:
        return None
    for findings, evidence in zip(verdicts, seen, strict=True):
        if first.severity == "error" and any(finding is first for finding in findings):
            return both_jacobians(evidence, first.evidence.get("input", ""))
    return None
