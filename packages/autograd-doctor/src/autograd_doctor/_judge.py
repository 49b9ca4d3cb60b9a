"""Convert evidence to findings, with the most likely cause first."""

from __future__ import annotations

from collections.abc import Collection

from autograd_doctor._rules import RULES
from autograd_doctor.evidence import Evidence
from autograd_doctor.finding import Finding

RANK = {"error": 0, "warning": 1, "info": 2}


def judge(
    evidence: Evidence, intentional: Collection[str] = (), skip_rules: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Return all findings, except intended ones and those that another finding explains.

    Errors come before warnings. Findings of the same severity are in the order of their rules,
    which puts the cause first. A rule in ``skip_rules`` does not run, so it cannot explain other
    findings. An ``intentional`` rule explains two kinds of findings: findings that describe the
    same behavior under another name, and findings about results that differ by design.
    """
    skipped = {*skip_rules, *unjudgeable(evidence)}
    found: list[Finding] = []
    errors: set[str] = set()  # names and families of the errors so far
    explained: set[str] = set()  # names and families of the findings that these errors explain
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
    """If ``backward`` is never linear, return the rules that require it to be linear."""
    if evidence.values.cotangent_range is not None:
        return set()
    built_on = {"linearity", "values"}
    return {
        rule.name
        for rule in RULES.values()
        if rule.family == "values" or built_on.intersection(rule.after)
    }
