"""From evidence to findings, the cause first."""

from __future__ import annotations

from collections.abc import Collection

from autograd_doctor._rules import RULES
from autograd_doctor.evidence import Evidence
from autograd_doctor.finding import Finding

RANK = {"error": 0, "warning": 1, "info": 2}


def judge(
    evidence: Evidence, intentional: Collection[str] = (), skip_rules: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Return what the rules find, without what is intended or explained by an earlier error.

    Errors come before warnings; among equals the order of work decides, so that the cause is first.
    A rule in ``skip_rules`` is not asked and explains nothing. One that is ``intentional`` explains
    only what says the same by another name, or compares with what is known to differ by design.
    """
    skipped = {*skip_rules, *unjudgeable(evidence)}
    found: list[Finding] = []
    errors: set[str] = set()  # names and families of what has gone wrong so far
    explained: set[str] = set()  # names and families of what that explains
    for rule in RULES.values():
        if errors.intersection(rule.after) or explained & {rule.name, rule.family}:
            continue
        if rule.name in skipped:
            continue
        finding = rule(evidence)
        if finding is None:
            continue
        if rule.name in intentional:
            explained.update(rule.by_design)
            continue
        found.append(finding)
        if finding.severity == "error":
            errors |= {rule.name, rule.family}
            explained.update(rule.explains)
    return tuple(sorted(found, key=lambda finding: RANK[finding.severity]))


def unjudgeable(evidence: Evidence) -> set[str]:
    """Return the rules that presuppose a linear backward, where it is linear for no cotangents."""
    if evidence.values.cotangent_range is not None:
        return set()
    built_on = {"linearity", "values"}
    return {
        rule.name
        for rule in RULES.values()
        if rule.family == "values" or built_on.intersection(rule.after)
    }
