"""A diagnosis as text, plain or in color, and as HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from autograd_course.doctor.comparing.numbers import element, number, told_apart
from autograd_course.doctor.finding import Finding
from autograd_course.doctor.reports import card, heatmap

if TYPE_CHECKING:
    from rich.text import Text

    from autograd_course.doctor.diagnosis import Diagnosis

# How what is meant to be so is declared; for an exercise's learner this is no way out.
BY_DESIGN = {
    "extra-gradient": "a straight-through estimator is declared by what it stands for: "
    "surrogate=differentiable_stand_in",
    "flipped-sign": "a gradient reversal is declared with intentional='flipped-sign'",
    "nonlinear-in-grad-output": "a clipped or guided backward is declared with "
    "intentional='nonlinear-in-grad-output'",
    "undeclared-surrogate": "declare what backward stands for: surrogate=differentiable_stand_in",
}
HELD_FIXED = "what is held fixed, as an embedding's padding is, is declared by reference=stand_in"
SCALED = (
    "a gradient reversed or scaled by design is declared by what it stands for, as in "
    "surrogate=lambda x, strength: -strength * x"
)
DATA = "where {} is data, call requires_grad_() on the inputs to differentiate, and on no others"


def as_text(diagnosis: Diagnosis) -> str:
    """Return the report as plain text: the verdict, then each finding with its witness."""
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
    yield f"{severity}{finding.rule}", sentence(finding.message)
    yield from details(finding)


def details(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield the labeled parts below a finding's message: witness, line of code, hint, lesson."""
    evidence = finding.evidence
    if "expected" in evidence and "actual" in evidence and "index" in evidence:
        yield "witness", witness_text(evidence)
    elif evidence.get("witness"):
        yield "witness", str(evidence["witness"])
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


def witness_text(evidence: Mapping[str, Any]) -> str:
    """Return the witness as one phrase: where, with what numbers, what came and what should."""
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


def sentence(text: str) -> str:
    """Start a message with a capital, unless it starts with a name from the user's code."""
    word = text.split(" ")[0].rstrip(",.")
    sounds = len(word) > 2 or word in ("an", "at", "in", "it", "no")  # x and dx are names
    ordinary = word.isalpha() and word.islower() and sounds and word != "ctx"
    return text[:1].upper() + text[1:] if ordinary else text
