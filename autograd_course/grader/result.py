"""What a learner is shown of a grading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from autograd_doctor import Finding
from autograd_doctor.card import Heading, as_html, as_text, finding_details
from autograd_doctor.finding import without_search
from autograd_doctor.formatting import sentence

from autograd_course.grader.links import to_rule
from autograd_course.grader.verdict import Status

PRINTED = "Your code printed, in one forward and one backward pass:"
_MARK = {"passed": "✓", "wrong": "✗", "not attempted": "○", "grader failed": "!"}


@dataclass(frozen=True, repr=False)
class Result:
    """The outcome of one ``grade`` call.

    ``status`` is ``"passed"``, ``"wrong"``, ``"not attempted"`` or ``"grader failed"``; ``points``
    are those earned by this answer, of ``possible``. ``finding`` is the doctor's, where a rule
    names the fault. ``sample`` names the kind of input on which the fault showed, ``read`` what to
    reread. ``warnings`` are the doctor's warnings about an answer that passed. ``printed`` is what
    the answer printed in one forward and one backward pass. ``kept`` says that an earlier answer
    passed. ``note`` says why the progress could not be saved. Printed, a result is plain text; in a
    notebook, HTML.
    """

    exercise: str
    title: str
    status: Status
    message: str
    points: int
    possible: int
    finding: Finding | None = None
    sample: str = ""
    read: str = ""
    note: str = ""
    warnings: tuple[Finding, ...] = ()
    printed: str = ""
    kept: bool = False

    @property
    def headline(self) -> str:
        """The first line: the exercise, the status, the points."""
        mark, status = _MARK[self.status], str(self.status)
        if self._only_kept:
            mark, status = _MARK["passed"], "passed earlier"
        if not self.possible:
            return f"{mark} {self.title} · {status}"
        unit = "point" if self.possible == 1 else "points"
        kept = self.kept and self.status != "passed"
        points = f"{self.possible if kept else self.points} of {self.possible} {unit}"
        return f"{mark} {self.title} · {status} · {points}{' kept' if kept else ''}"

    @property
    def _only_kept(self) -> bool:
        """Whether there is no answer now, and an earlier one passed."""
        return self.kept and self.status == "not attempted"

    def rows(self, *, in_shell: bool = False) -> Iterator[tuple[str, str]]:
        """Yield what is shown below the headline, as (label, text).

        A notebook asks for a hint by a call, a shell by a command.
        """
        yield Heading(self.finding.rule) if self.finding else "", sentence(self.message)
        if self.status == "wrong":
            yield "with", self.sample
            yield from self._evidence()
            yield "read", self.read
        if self._only_kept:
            yield "note", "You passed this exercise earlier; your points are kept."
        elif self.status in ("wrong", "not attempted") and self.possible:
            call = f'hint("{self.exercise}")'
            command = f"autograd-course hint {self.exercise}"
            yield "next", f"{command if in_shell else call} gives the next hint"
        if self.status == "wrong" and self.kept:
            yield "note", "An earlier answer passed; your points are kept."
        if self.status == "grader failed":
            yield "next", "this is not about your answer; run the cell again, or report it"
        for warning in self.warnings:
            yield "warning", f'{_short(warning)} (explain("{warning.rule}"))'
        yield "note", self.note

    def _evidence(self) -> Iterator[tuple[str, str]]:
        """Yield the doctor's example, line and hint; what to reread, the exercise says itself."""
        if self.finding:
            (finding,) = without_search([self.finding])
            yield from (
                row for row in finding_details(finding) if row[0] not in ("lesson", "if meant")
            )

    def __repr__(self) -> str:
        lines = "".join(f"\n    {line}".rstrip(" ") for line in self.printed.splitlines())
        return as_text(self.headline, self.rows()) + (f"\n  {PRINTED}{lines}" if lines else "")

    def _repr_html_(self) -> str:
        kind = "passed" if self._only_kept else self.status
        printed = ""
        if self.printed:
            printed = (
                f'<div>{PRINTED}</div><pre style="margin: 0 0 0 1em; background: none; '
                f'color: inherit">{escape(self.printed.rstrip())}</pre>'
            )
        return _linked(as_html(self.headline, self.rows(), kind=kind, figure=printed))


def _short(warning: Finding) -> str:
    """Return a warning as its rule and the first sentence of its message."""
    return f"{warning.rule}: {re.split(r'(?<=[.]) ', sentence(warning.message))[0]}"


def _linked(html: str) -> str:
    """Return HTML in which each call of ``explain`` leads to the rule's page."""

    def link(call: re.Match[str]) -> str:
        return f'<a href="{to_rule(call[1])}" target="_blank">{call[0]}</a>'

    return re.sub(r"explain\(&quot;([a-z-]+)&quot;\)", link, html)
