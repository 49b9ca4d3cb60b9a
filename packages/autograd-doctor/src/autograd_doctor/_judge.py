"""Convert evidence to findings, with the most likely cause first."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from autograd_doctor._execution.isolation import preserve_global_state
from autograd_doctor._reference import establish
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


def judge_evidence(
    evidence: Evidence,
    *,
    reference: Callable[..., Any] | None = None,
    surrogate: Callable[..., Any] | None = None,
    intentional: Collection[str] = (),
    skip_rules: Collection[str] = (),
    seed: int = 0,
) -> tuple[Finding, ...]:
    """Add the expected gradients to evidence, and apply all rules.

    Args:
        evidence: The result of :func:`~.extension.collect_evidence` for one call.
        reference: As for :func:`~autograd_doctor.diagnose`.
        surrogate: As for :func:`~autograd_doctor.diagnose`.
        intentional: As for :func:`~autograd_doctor.diagnose`.
        skip_rules: The names of the rules to skip.
        seed: The seed that you passed to :func:`~.extension.collect_evidence`.

    Returns:
        The findings, starting with the root cause. No second run has confirmed them; see
        :func:`~.extension.conclude`.

    Raises:
        CannotDiagnoseError: The reference or surrogate raises an error on these inputs, or its
            outputs cannot be compared.
    """
    with preserve_global_state(seed):  # a reference may draw random numbers or warn
        known, *others = (
            establish(each, reference, surrogate, seed) for each in (evidence, *evidence.others)
        )
        return judge(replace(known, others=tuple(others)), intentional, skip_rules)


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
