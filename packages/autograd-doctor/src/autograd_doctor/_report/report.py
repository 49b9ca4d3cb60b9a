"""Format a diagnosis as plain text, as colored text, and as HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autograd_doctor import card
from autograd_doctor import jacobians as heatmap

if TYPE_CHECKING:
    from rich.text import Text

    from autograd_doctor.diagnosis import Diagnosis
    from autograd_doctor.finding import Finding


MORE = "Pass `level='full'` for details."
ASK = "Pass `double_backward=True` if you need it."
SECOND = {
    "silent-double-backward": "a second derivative is wrong",
    "once-differentiable-leak": "a second derivative is wrong",
    "no-double-backward": "a second derivative raises an error",
}
SILENT = [*SECOND][:2]


def as_text(diagnosis: Diagnosis) -> str:
    """Return the report as plain text: the verdict, then each finding with an example."""
    return card.as_text(_headline(diagnosis), *_sections(diagnosis))


def as_rich(diagnosis: Diagnosis, width: int) -> Text:
    """Return the report as colored text for a terminal that is ``width`` columns wide."""
    return card.as_rich(
        _headline(diagnosis), *_sections(diagnosis), kind=_kind(diagnosis), width=width
    )


def as_html(diagnosis: Diagnosis) -> str:
    """Return the report as HTML that uses JupyterLab's theme and contains no scripts."""
    figure = heatmap.as_html(diagnosis.jacobians) if diagnosis.jacobians else ""
    return card.as_html(
        _headline(diagnosis), *_sections(diagnosis), kind=_kind(diagnosis), figure=figure
    )


def repair_card(diagnosis: Diagnosis) -> dict[str, str]:
    """Return only the clues and the suggested repairs, as plain text and as HTML.

    If the report shows Jacobians, the HTML includes the Jacobians of the repaired Function.
    """
    headline = f"{diagnosis.subject} · {'a repair' if diagnosis.repair else 'the cause'}"
    sections = [rows for finding in diagnosis.findings if (rows := [*card.search_rows(finding)])]
    after = diagnosis.repair.jacobians if diagnosis.jacobians and diagnosis.repair else None
    figure = heatmap.as_html(after) if after else ""
    return {
        "text/plain": card.as_text(headline, *sections),
        "text/html": card.as_html(headline, *sections, kind="hint", figure=figure),
    }


def _kind(diagnosis: Diagnosis) -> str:
    return {True: "passed", False: "wrong", None: "not examined"}[diagnosis.ok]


def _headline(diagnosis: Diagnosis) -> str:
    counts = Counter(finding.severity for finding in _told(diagnosis))
    if counts["error"]:
        return f"✗ {diagnosis.subject} · wrong"
    if diagnosis.unexamined:
        return f"? {diagnosis.subject} · no error found, but values were not examined"
    if not counts and any(finding.rule in SILENT for finding in diagnosis.findings):
        return f"✓ {diagnosis.subject} · no error in the first derivative, but the second is wrong"
    if not counts:
        return f"✓ {diagnosis.subject} · nothing wrong found"
    rest = [f"{n} {severity}{'s' * (n > 1)}" for severity, n in counts.items()]
    return f"✓ {diagnosis.subject} · no error, {' and '.join(rest)}"


def _sections(diagnosis: Diagnosis) -> Iterator[Iterator[tuple[str, str]]]:
    told = _told(diagnosis)
    if not told:
        yield (("examined", item) for item in diagnosis.examined)
    yield from map(card.finding_rows, told)
    if told and diagnosis.ok:
        yield (("examined", item) for item in diagnosis.limits)
    notes = [finding for finding in diagnosis.findings if finding not in told]
    for note in (note for note in notes if note.rule in SECOND):
        yield iter([("notes", f"{_names([note.rule])}: {SECOND[note.rule]}. {_where(note)}{ASK}")])
    if others := [note.rule for note in notes if note.rule not in SECOND]:
        yield iter([("notes", f"{_names(others)}: no result is wrong. {MORE}")])
    yield (("skipped", item) for item in diagnosis.unexamined)


def _where(note: Finding) -> str:
    """Describe where the graph ends. Return ``""`` if this is unknown."""
    line, names = note.evidence.get("line"), note.evidence.get("lost")
    if not line or not isinstance(names, list):
        return ""
    of = " and ".join(f"`{name}`" for name in names)
    return f"The graph ends at {of} in `{line}`. "


def _names(rules: list[str]) -> str:
    return ", ".join(f"`{rule}`" for rule in rules)


def _told(diagnosis: Diagnosis) -> list[Finding]:
    """Return the findings that get their own paragraph in the report.

    Include notes only at level ``"full"``.
    """
    full = diagnosis.level == "full"
    return [f for f in diagnosis.findings if full or f.severity != "info"]
