"""Describe a verdict from the gradebook in the same words as ``grade``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autograd_doctor import Finding
from autograd_doctor.card import Heading

from autograd_classroom.gradebook import Score
from autograd_classroom.protocol.evidence import WARNINGS
from autograd_classroom.reports.pages import links
from autograd_course.grader.catalogue import CATALOGUE
from autograd_course.grader.exercise import Section
from autograd_course.grader.result import Result
from autograd_course.grader.sections import section_to_read

_NUMBERS = ("expected", "actual", "at", "grad_output")  # nan is stored as a string
_NOT_OURS = (
    "The grader failed, and your answer is not the cause. Your instructor can grade it again."
)
_NOT_YET = "This answer is not graded yet."
_NONE = "The student has not answered this exercise."


@dataclass(frozen=True)
class Told:
    """One row of a verdict, with a label, some text, and an optional link."""

    label: str
    text: str
    link: str = ""

    @property
    def is_code(self) -> bool:
        """Whether the text is code."""
        return self.label in ("witness", "example", "at", "call")


def told(score: Score) -> tuple[Told, ...]:
    """Return the rows that a learner sees about one answer, starting with the message."""
    if score.settlement and score.status in ("", "grader failed"):
        return ()
    if score.status == "grader failed":
        return (Told("", _NOT_OURS),)
    if not score.status:
        return (Told("", _NOT_YET if score.hash else _NONE),)
    exercise = CATALOGUE.get(score.exercise)
    section = section_to_read(exercise, score.rule) if exercise else None
    rows = _result(score, section).rows()
    return tuple(_row(label, text, section) for label, text in rows if text)


def _row(label: str, text: str, section: Section | None) -> Told:
    if label == "read":
        return Told(label, text, links.to_lesson(section or ""))
    return Told("" if isinstance(label, Heading) else label, text)


def _result(score: Score, section: Section | None) -> Result:
    evidence = _witness(score.evidence)
    hint = str(score.evidence.get("hint", ""))
    finding = Finding(score.rule, "error", score.message, evidence, hint) if score.rule else None
    return Result(
        exercise=score.exercise,
        title=score.title,
        status=score.status,  # type: ignore[arg-type]  # told() handles an empty status
        message=score.message,
        points=int(score.points),
        possible=int(score.possible),
        finding=finding,
        sample=str(score.evidence.get("with", "")),
        read=section or "",
        warnings=tuple(_warnings(score)),
    )


def _warnings(score: Score) -> Iterator[Finding]:
    for warning in score.evidence.get(WARNINGS, ()):
        yield Finding(warning["rule"], "warning", warning["message"])


def _witness(evidence: Mapping[str, Any]) -> dict[str, Any]:
    return dict(evidence) | dict(_numbers(evidence))


def _numbers(evidence: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key in _NUMBERS:
        if evidence.get(key) in ("nan", "inf", "-inf"):
            yield key, float(evidence[key])
