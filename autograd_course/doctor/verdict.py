"""From the findings on several inputs to one verdict, which a second run must confirm."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from autograd_course.doctor.errors import DoctorError
from autograd_course.doctor.evidence import Evidence
from autograd_course.doctor.finding import Finding
from autograd_course.doctor.judge import RANK
from autograd_course.doctor.rules import RULES

Findings = tuple[Finding, ...]

# What is asked of the Functions inside a callable. Their values are judged by the callable's own:
# a surrogate, a scale or a mask around them may be what makes them right.
ASKED_INSIDE = ("contract", "layout", "state", "efficiency")
OF_VALUES = ("linearity", "values")  # the families that are judged by gradients alone


def has_error(findings: Findings) -> bool:
    """Whether a finding is an error."""
    return any(finding.severity == "error" for finding in findings)


def clearest(verdicts: Sequence[Findings]) -> Findings:
    """Return one verdict of several, the first of which is on the caller's example.

    Of wrong values, random inputs hide less than an example. But where the example shows the same,
    its own element is the one that the caller knows, and only there causes beyond values are asked
    for.
    """
    wrong = [findings for findings in verdicts if has_error(findings)]
    if not wrong:
        told = {f.rule: f for findings in reversed(verdicts) for f in findings}
        return tuple(sorted(told.values(), key=_place))
    if wrong[0] is verdicts[0] and RULES[wrong[0][0].rule].family not in OF_VALUES:
        return wrong[0]
    return next(v for v in wrong if v[0].rule == wrong[-1][0].rule)


def concluded(
    verdicts: Sequence[Findings],
    again: Callable[[bool], Sequence[Findings]],
    without: Callable[[Collection[str]], Sequence[Findings]],
) -> Findings:
    """Return the clearest verdict; of its errors, those that a run on other inputs confirms.

    ``again`` makes that run; it is told whether it has to look closely, beyond values. ``without``
    judges the first one once more, some rules left out: an error that does not stand explains
    nothing, and what it seemed to explain is still to be told.
    """
    found = clearest(verdicts)
    if not has_error(found):
        return found
    errors = _errors(verdicts)
    second = again(any(RULES[name].family not in OF_VALUES for name in errors))
    left = clearest([confirmed(findings, second) for findings in verdicts])
    if has_error(left):
        return left
    return clearest([confirmed(findings, second) for findings in without(_and_their_like(errors))])


def _errors(verdicts: Sequence[Findings]) -> set[str]:
    """Return the names of all errors."""
    return {f.rule for findings in verdicts for f in findings if f.severity == "error"}


def _and_their_like(names: Collection[str]) -> set[str]:
    """Return rules with those that would tell the same wrong gradient by another name."""
    families = {RULES[name].family for name in names}.intersection(OF_VALUES)
    errors = (rule for rule in RULES.values() if rule.severity == "error")
    return {*names, *(rule.name for rule in errors if rule.family in families)}


def unjudged(found: Findings, seen: Sequence[Evidence]) -> DoctorError | None:
    """Return why nothing found says nothing: no gradient was there to be asked for."""
    raw, failed = seen[0].raw, seen[0].forward.failure
    if found or any(evidence.pulls for evidence in seen) or failed or (raw and raw.failure):
        return None
    return DoctorError(
        f"no output of {seen[0].subject} is differentiable, so there is no gradient to check."
    )


def confirmed(found: Findings, again: Sequence[Findings]) -> Findings:
    """Return what was found, without the errors that another run shows nothing like.

    Other random inputs may give the same mistake another name of the same family.
    """
    families = {RULES[name].family for name in _errors(again)}
    return tuple(f for f in found if f.severity != "error" or RULES[f.rule].family in families)


def together(outside: Findings, inside: Findings) -> Findings:
    """Return what was found on a callable with what was found on the Functions inside it.

    Each side's errors explain findings of the other; what both show is told by the inside, which
    knows the names.
    """
    asked = (f for f in inside if RULES[f.rule].family in ASKED_INSIDE)
    new = tuple(f for f in asked if not _explained(f, outside))
    told = {finding.rule for finding in new}
    left = tuple(f for f in outside if f.rule not in told and not _explained(f, new))
    return tuple(sorted((*left, *new), key=_place))


def _explained(finding: Finding, by: Findings) -> bool:
    errors = {f.rule for f in by if f.severity == "error"}
    causes = errors | {RULES[name].family for name in errors}
    rule = RULES[finding.rule]
    explained = {what for name in errors for what in RULES[name].explains}
    return bool(causes.intersection(rule.after) or explained & {rule.name, rule.family})


def _place(finding: Finding) -> tuple[int, int]:
    return RANK[finding.severity], list(RULES).index(finding.rule)
