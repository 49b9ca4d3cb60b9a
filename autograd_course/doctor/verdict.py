"""From the findings on several inputs to one verdict, which a second run must confirm."""

from __future__ import annotations

from collections.abc import Sequence

from autograd_course.doctor.diagnosis import Finding
from autograd_course.doctor.rules import RULES

Findings = tuple[Finding, ...]


def has_error(findings: Findings) -> bool:
    """Whether a finding is an error."""
    return any(finding.severity == "error" for finding in findings)


def clearest(verdicts: Sequence[Findings]) -> Findings:
    """Return one verdict: that on random inputs, which hide less than an example.

    Where the example shows the same, its own witness is the one that the caller knows.
    """
    wrong = [findings for findings in verdicts if has_error(findings)]
    if wrong:
        return next(v for v in wrong if v[0].rule == wrong[-1][0].rule)
    return tuple({f.rule: f for findings in reversed(verdicts) for f in findings}.values())


def confirmed(found: Findings, again: Sequence[Findings]) -> Findings:
    """Return what was found, without the errors that another run shows nothing like.

    Other random inputs may give the same mistake another name of the same family.
    """
    errors = {f.rule for findings in again for f in findings if f.severity == "error"}
    families = {RULES[name].family for name in errors}
    return tuple(f for f in found if f.severity != "error" or RULES[f.rule].family in families)
