"""The report that a learner sees after grading."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Any, Literal

from autograd_doctor import Finding
from autograd_doctor.card import (
    Heading,
    Link,
    as_html,
    as_text,
    clue_rows,
    finding_details,
    linked,
    repair_rows,
)
from autograd_doctor.finding import without_search
from autograd_doctor.formatting import sentence
from autograd_doctor.repair import Repair

from autograd_course.grader.links import to_lesson, to_rule
from autograd_course.grader.verdict import Status

_FOLDED = ("with", "at", "call", "hint")  # HTML shows these rows after a click
PRINTED = "Your code printed, in one forward and one backward pass:"
_MARK = {"passed": "✓", "wrong": "✗", "not attempted": "○", "grader failed": "!"}


# The stages of a report. The first stage shows the rule and an example. The second stage adds what
# the example shows, and the line to change. The third stage explains the mistake in that line. The
# last stage adds the change itself.
Stage = Literal["rule", "cause", "kind", "repair"]

# For these rules, the message would almost give away the answer, so the first stage shows these
# sentences instead.
FIRST = {
    "constant-factor": "the gradient of {} is off by a constant factor.",
    "missing-dependency": "the gradient of {} does not include every path from {} to the output.",
    "missing-cross-terms": "the gradient of {} does not include every path from {} to the output.",
    "wrong-region": "the gradient of {} is right for some of its values and wrong for others.",
}


@dataclass(frozen=True, repr=False)
class Result:
    """The result of one call to ``grade``.

    ``status`` is ``"passed"``, ``"wrong"``, ``"not attempted"`` or ``"grader failed"``. ``points``
    is the number of points that this answer has earned, out of ``possible``. ``finding`` comes from
    the doctor, if a rule describes the mistake. ``sample`` is the kind of input that shows the
    mistake, and ``read`` names the section to reread. ``warnings`` are the doctor's warnings about
    an answer that passed. ``printed`` is the answer's output in one forward and one backward pass.
    ``kept`` says whether an earlier answer passed. ``note`` says why the progress could not be
    saved, or which lines of a correct answer an instructor should check. ``stage`` determines how
    much the learner sees. ``print`` shows plain text, and a notebook shows HTML.
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
    stage: Stage = "cause"
    search: Callable[[], Repair | None] | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        # ``search`` is a callable, and pickle cannot send it to another process.
        return {**self.__dict__, "search": None}

    @cached_property
    def repair(self) -> Repair | None:
        """The change that corrects a wrong answer, if the search finds one.

        The first access starts the search, which takes at most a second.
        """
        return self.search() if self.search else None

    @property
    def headline(self) -> str:
        """The first line: the exercise, the status and the points."""
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
        """Whether this answer is empty even though an earlier answer passed."""
        return self.kept and self.status == "not attempted"

    def rows(self, *, in_shell: bool = False) -> Iterator[tuple[str, str]]:
        """Yield the text below the headline, as (label, text) pairs.

        The text says how to get the next hint. If ``in_shell`` is true, the text names a shell
        command instead of a function call.
        """
        rule = self.finding.rule if self.finding else ""
        yield Heading(rule, to_rule(rule)) if rule else "", sentence(self._message)
        if self.status == "wrong":
            yield "with", self.sample
            yield from self._evidence()
            yield "read", Link(self.read, to_lesson(self.read))
        if self._only_kept:
            yield "note", "You passed this exercise earlier; your points are kept."
        elif self.status in ("wrong", "not attempted") and self.possible:
            call = f'hint("{self.exercise}")'
            command = f"autograd-course hint {self.exercise}"
            yield "next", f"{command if in_shell else call} gives the next hint"
        if self.status == "wrong" and self.kept:
            yield "note", "An earlier answer passed; your points are kept."
        if self.status == "grader failed":
            yield "next", "your answer is not the cause; run the cell again, or report the problem"
        for warning in self.warnings:
            yield "warning", f'{_short(warning)} (explain("{warning.rule}"))'
        yield "note", self.note

    @property
    def _message(self) -> str:
        """The message. The first stage omits conclusions that would give away the answer."""
        said = FIRST.get(self.finding.rule) if self.finding and self.stage == "rule" else None
        if said is None or self.finding is None or "input" not in self.finding.evidence:
            return self.message
        name = f"`{self.finding.evidence['input']}`"
        return said.format(name, name)

    def _evidence(self) -> Iterator[tuple[str, str]]:
        """Yield the doctor's example, line and hint, but not the lesson that the doctor names."""
        if self.finding:
            (finding,) = without_search([self.finding])
            yield from (
                row for row in finding_details(finding) if row[0] not in ("lesson", "if meant")
            )

    def repair_rows(self) -> Iterator[tuple[str, str]]:
        """Yield the line to change. Later stages add the mistake in that line, and then the change.

        These stages also name the step or expression that explains the mistake.

        The first call starts the search for the change, which takes at most a second.
        """
        if self.status != "wrong" or self.stage == "rule":
            return
        if self.finding and self.stage in ("kind", "repair"):
            yield from clue_rows(self.finding, self.repair if self.stage == "repair" else None)
        if self.repair:
            if self.stage == "repair":
                yield from repair_rows(self.repair)
            else:
                for change in self.repair.changes:
                    yield "look at", f"line {change.line} of {self.repair.where}"
                if self.stage == "kind":
                    yield "there", ", and ".join(self.repair.kinds)

    def _ipython_display_(self) -> None:
        """Show the verdict immediately, and the repair as soon as the search has found it."""
        # This import takes a tenth of a second, and only notebooks need it.
        from IPython import display

        show: Any = display.display
        show({"text/plain": self._text(), "text/html": self._repr_html_()}, raw=True)
        if rows := [*self.repair_rows()]:
            headline = f"{self.title} · where to look"
            html = as_html(headline, rows, kind="hint")
            show({"text/plain": as_text(headline, rows), "text/html": html}, raw=True)

    def __repr__(self) -> str:
        return self._text([*self.repair_rows()])

    def _text(self, more: Sequence[tuple[str, str]] = ()) -> str:
        lines = "".join(f"\n    {line}".rstrip(" ") for line in self.printed.splitlines())
        rows = [*self.rows(), *more]
        return as_text(self.headline, rows) + (f"\n  {PRINTED}{lines}" if lines else "")

    def _repr_html_(self) -> str:
        kind = "passed" if self._only_kept else self.status
        printed = ""
        if self.printed:
            printed = (
                f'<div>{PRINTED}</div><pre style="margin: 0 0 0 1em; background: none; '
                f'color: inherit">{escape(self.printed.rstrip())}</pre>'
            )
        folded = [row for row in self.rows() if row[0] in _FOLDED]
        rows = [row for row in self.rows() if row not in folded]
        return _linked(as_html(self.headline, rows, kind=kind, figure=printed, folded=folded))


def _short(warning: Finding) -> str:
    """Return the name of a warning's rule and the first sentence of the warning's message."""
    return f"{warning.rule}: {re.split(r'(?<=[.]) ', sentence(warning.message))[0]}"


def _linked(html: str) -> str:
    """Return HTML in which each call to ``explain`` links to the page about the rule."""

    def link(call: re.Match[str]) -> str:
        return linked(call[0], to_rule(call[1]))

    return re.sub(r"explain\(&quot;([a-z-]+)&quot;\)", link, html)
