"""A diagnosis as text and as HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from textwrap import wrap
from typing import Any

from autograd_course.doctor.diagnosis import Diagnosis, Finding

WIDTH = 88
_COLORS = {"error": "#c4451c", "warning": "#a86f00", "info": "#3d74b8"}


def as_text(diagnosis: Diagnosis) -> str:
    """Return the report as plain text: the verdict, then each finding with its witness."""
    lines = [f"{diagnosis.subject}: {_verdict(diagnosis)}"]
    for finding in diagnosis.findings:
        lines += ["", *finding_text(finding)]
    if not diagnosis.findings and diagnosis.examined:
        lines += [f"  examined: {item}" for item in diagnosis.examined]
    return "\n".join(lines)


def finding_text(finding: Finding) -> list[str]:
    """Return one finding as lines of plain text."""
    lines = [f"{finding.severity}  {finding.rule}", *_indented(sentence(finding.message))]
    lines += [line for label, value in details(finding) for line in _labeled(label, value)]
    return lines


def details(finding: Finding) -> Iterator[tuple[str, str]]:
    """Yield the labeled parts below a finding's message: witness, line of code, hint, lesson."""
    evidence = finding.evidence
    if "expected" in evidence and "actual" in evidence and "index" in evidence:
        yield "witness", witness_text(evidence)
    if evidence.get("line"):
        yield "at", str(evidence["line"])
    if evidence.get("call"):
        yield "call", str(evidence["call"])
    if finding.hint:
        yield "hint", finding.hint
    if finding.lesson:
        yield "lesson", finding.lesson


def witness_text(evidence: Mapping[str, Any]) -> str:
    """Return the witness as one phrase: where, with what numbers, what came and what should."""
    index = evidence["index"]
    where = f"{evidence['input']}{index if index else ''}"
    what = ""
    if "at" in evidence:
        where, what = f"{where} = {number(evidence['at'])}", "gradient "
    if "grad_output" in evidence:
        where += f", grad_output = {number(evidence['grad_output'])}"
    return f"{where}: {what}{number(evidence['actual'])}, should be {number(evidence['expected'])}"


def number(value: Any) -> str:
    """Return a number with four significant digits."""
    return f"{value + 0.0:.4g}" if isinstance(value, float) else str(value)  # + 0.0: no -0


def as_html(diagnosis: Diagnosis) -> str:
    """Return the report as HTML that follows JupyterLab's theme; it holds no script."""
    color = "#2b7a4b" if diagnosis.ok else _COLORS["error"]
    head = f"<b>{escape(diagnosis.subject)}</b>: {escape(_verdict(diagnosis))}"
    body = "".join(finding_html(finding) for finding in diagnosis.findings)
    if not diagnosis.findings:
        body = "".join(
            f"<div style='opacity:.8'>examined: {escape(e)}</div>" for e in diagnosis.examined
        )
    return (
        f"<div style='border-left:4px solid {color};padding:4px 12px;"
        f"color:var(--jp-ui-font-color1,inherit);max-width:46em'><div>{head}</div>{body}</div>"
    )


def finding_html(finding: Finding) -> str:
    """Return one finding as HTML."""
    rows = "".join(
        f"<tr><td style='text-align:left;vertical-align:top;opacity:.75;padding:1px 12px 1px "
        f"0'>{label}</td>"
        f"<td style='text-align:left'>{_code(label, value)}</td></tr>"
        for label, value in details(finding)
    )
    return (
        f"<div style='margin-top:8px'><b style='color:{_COLORS[finding.severity]}'>"
        f"{finding.severity}</b> <code>{escape(finding.rule)}</code></div>"
        f"<div>{escape(sentence(finding.message))}</div><table style='margin:2px 0'>{rows}</table>"
    )


def _code(label: str, value: str) -> str:
    return f"<code>{escape(value)}</code>" if label in ("witness", "at", "call") else escape(value)


def _verdict(diagnosis: Diagnosis) -> str:
    errors = [finding for finding in diagnosis.findings if finding.severity == "error"]
    if errors:
        return f"wrong - {errors[0].rule}"
    return "nothing wrong found" if not diagnosis.findings else "no error found"


def sentence(text: str) -> str:
    """Start a message with a capital, unless it starts with a name from the user's code."""
    word = text.split(" ")[0]
    return text[:1].upper() + text[1:] if word.isalpha() and len(word) > 2 else text


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in wrap(text, WIDTH - 2)]


def _labeled(label: str, value: str) -> list[str]:
    first, *rest = wrap(value, WIDTH - 11) or [""]
    return [f"  {label:<9}{first}", *(f"  {'':<9}{line}" for line in rest)]
