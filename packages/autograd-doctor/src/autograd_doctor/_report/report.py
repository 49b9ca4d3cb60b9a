"""A diagnosis as text, plain or in color, and as HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from autograd_doctor._numerics.formatting import element, number, told_apart
from autograd_doctor._report import card
from autograd_doctor._report import jacobians as heatmap
from autograd_doctor._words import sentence
from autograd_doctor.finding import Finding

if TYPE_CHECKING:
    from rich.text import Text

    from autograd_doctor.diagnosis import Diagnosis

# How to declare what is wrong by design; a learner in an exercise does not see it.
BY_DESIGN = {
    "extra-gradient": "for a straight-through estimator, pass `surrogate=f`, where `f` is the "
    "differentiable function whose gradient `backward` returns",
    "flipped-sign": "for a gradient reversal, pass `intentional='flipped-sign'`",
    "nonlinear-in-grad-output": "for a clipped or guided `backward`, pass "
    "`intentional='nonlinear-in-grad-output'`",
    "undeclared-surrogate": "for a straight-through estimator, pass `surrogate=f`, where `f` is "
    "the differentiable function whose gradient `backward` returns",
}
HELD_FIXED = (
    "for elements that get no gradient by design, such as the padding of an embedding, pass "
    "`reference=f`, where `f` is a differentiable function that treats them as constants"
)
SCALED = (
    "for a gradient that you reverse or scale by design, pass the function that has this gradient, "
    "for example `surrogate=lambda x, strength: -strength * x`"
)
DATA = "if `{}` is data, call `requires_grad_()` only on the inputs that you want to differentiate"


def as_text(diagnosis: Diagnosis) -> str:
    """Return the report as plain text: the verdict, then each finding with its example."""
    return card.as_text(_headline(diagnosis), *_sections(diagnosis))


def as_rich(diagnosis: Diagnosis, width: int) -> Text:
    """Return the report in color, for a terminal of that width."""
    return card.as_rich(
        _headline(diagnosis), *_sections(diagnosis), kind=_kind(diagnosis), width=width
    )


def as_html(diagnosis: Diagnosis) -> str:
    """Return the report as HTML that follows JupyterLab's theme; it holds no script."""
    figure = heatmap.as_html(diagnosis.jacobians) if diagnosis.jacobians else ""
    return card.as_html(
        _headline(diagnosis), *_sections(diagnosis), kind=_kind(diagnosis), figure=figure
    )


def _kind(diagnosis: Diagnosis) -> str:
    return {True: "passed", False: "wrong", None: "not examined"}[diagnosis.ok]


def _headline(diagnosis: Diagnosis) -> str:
    counts = Counter(finding.severity for finding in diagnosis.findings)
    if counts["error"]:
        return f"✗ {diagnosis.subject} · wrong"
    if diagnosis.unexamined:
        return f"? {diagnosis.subject} · no error found, but values were not examined"
    if not counts:
        return f"✓ {diagnosis.subject} · nothing wrong found"
    rest = [f"{n} {severity}{'s' * (n > 1)}" for severity, n in counts.items()]
    return f"✓ {diagnosis.subject} · no error, {' and '.join(rest)}"


def _sections(diagnosis: Diagnosis) -> Iterator[Iterator[tuple[str, str]]]:
    if not diagnosis.findings:
        yield (("examined", item) for item in diagnosis.examined)
    yield from map(rows, diagnosis.findings)
    yield (("skipped", item) for item in diagnosis.unexamined)


def rows(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield one finding as labeled rows: the rule and what it says, then the details."""
    severity = "" if finding.severity == "error" else f"{finding.severity}, "
    yield card.Heading(severity + finding.rule), sentence(finding.message)
    yield from details(finding)


def details(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield the labeled parts below a finding's message: example, line of code, hint, lesson."""
    evidence = finding.evidence
    if "expected" in evidence and "actual" in evidence and "index" in evidence:
        yield "example", example_text(evidence)
    elif evidence.get("witness"):
        yield "example", str(evidence["witness"])
    if evidence.get("line"):
        yield "at", str(evidence["line"])
    if evidence.get("call"):
        yield "call", str(evidence["call"])
    if finding.hint:
        yield "hint", finding.hint
    if finding.rule in BY_DESIGN:
        yield "if meant", BY_DESIGN[finding.rule]
    elif evidence.get("acts_on_the_gradient_alone"):
        yield "if meant", SCALED
    elif evidence.get("without_gradient"):
        yield "if meant", DATA.format(*evidence["without_gradient"])
    elif evidence.get("held_fixed"):
        yield "if meant", HELD_FIXED
    if finding.lesson:
        yield "lesson", finding.lesson


def example_text(evidence: Mapping[str, Any]) -> str:
    """Return the example as one phrase: where, with what numbers, what came and what should."""
    where = element(evidence["input"], evidence["index"])
    what = ""
    if "at" in evidence:
        where, what = f"{where} = {number(evidence['at'])}", "gradient "
    if evidence.get("given"):
        where += "".join(f", {name} = {number(value)}" for name, value in evidence["given"].items())
    if "grad_output" in evidence:
        where += f", grad_output = {number(evidence['grad_output'])}"
    actual, expected = told_apart(evidence["actual"], evidence["expected"])
    return f"{where}: {what}{actual}, should be {expected}"
