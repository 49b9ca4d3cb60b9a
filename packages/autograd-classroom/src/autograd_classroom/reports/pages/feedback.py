"""A student's page, with the points, the code, the mistakes, and links to the lessons.

The page contains only data that the student is allowed to see. It does not contain seeds, remarks
for the instructor, other students' names, or error messages from the grader.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from autograd_doctor import jacobians as heatmap
from autograd_doctor.formatting import listed
from markupsafe import Markup

from autograd_classroom.gradebook import Gradebook, Score, Settlement
from autograd_classroom.gradebook.records import total_points
from autograd_classroom.pictures import PICTURE, from_data
from autograd_classroom.protocol.evidence import ALSO
from autograd_classroom.reports.pages import links
from autograd_classroom.reports.pages.code import highlighted, offending
from autograd_classroom.reports.pages.rendering import rendered, shown
from autograd_classroom.reports.pages.telling import Told, told

_LONGEST = 60  # maximum number of characters from a student's name in a file name
# Accents are removed. The letters below have no base letter, so they get ASCII spellings.
_LETTERS = dict.fromkeys(range(768, 880)) | str.maketrans(
    {"æ": "ae", "đ": "d", "ð": "d", "ı": "i", "ł": "l", "œ": "oe", "ø": "o", "þ": "th"}
)
MARKS = {"passed": "✓", "wrong": "✗", "not attempted": "○", "grader failed": "!", "not graded": "…",
         "settled": "✎"}  # fmt: skip


@dataclass(frozen=True)
class Part:
    """One exercise on the page."""

    score: Score
    mark: str
    status: str
    rows: tuple[Told, ...]
    rule_link: str
    code: Markup | None
    before: Markup | None
    picture: Markup | None

    @property
    def settled(self) -> Settlement | None:
        """Return the points set by hand, or ``None``."""
        return self.score.settlement

    @property
    def partial(self) -> str:
        """If a wrong answer has partial credit, return a sentence about the lost points."""
        score = self.score
        if score.status != "wrong" or not score.points or score.settlement:
            return ""
        faults = [score.rule, *score.evidence.get(ALSO, ())]
        verb = "costs" if len(faults) == 1 else "cost"
        lost = score.possible - score.points / (1 - score.late_cost)
        return f"{listed(faults)} {verb} {lost:g} {'point' if lost == 1 else 'points'}."

    @property
    def counted_as(self) -> str:
        """Return the CSS class that determines the colors."""
        return self.score.outcome.replace(" ", "-")


def feedback(
    book: Gradebook, student: str, name: str = "", possible: float | None = None
) -> Iterator[str]:
    """Yield one student's page in pieces. ``name`` is the name on the roster.

    ``possible`` is the number of :meth:`Gradebook.possible`, if the caller already knows it.
    """
    scores = book.scores(student)
    late = {score.late for score in scores if score.status != "not attempted"}
    return rendered(
        "feedback.html",
        name=name or student,
        late=late.pop() if len(late) == 1 else 0,  # otherwise, each answer says how late it is
        points=total_points(scores),
        possible=book.possible() if possible is None else possible,
        complete=all(score.is_counted for score in scores),
        parts=[part(book, score) for score in scores],
        problems=book.problems(student),
    )


def feedback_name(student: str) -> str:
    """Return the file name for a student's page, which is unique even if case is ignored."""
    letters = unicodedata.normalize("NFKD", student.casefold()).translate(_LETTERS)
    plain = re.sub(r"[^a-z0-9._-]+", "-", letters).strip("-.")[:_LONGEST]
    if plain and plain == student:
        return f"{plain}.html"
    return f"{plain or 'student'}~{hashlib.sha256(student.encode()).hexdigest()[:8]}.html"


def part(book: Gradebook, score: Score) -> Part:
    """Return the data that the page shows about one answer."""
    _, before, source = book.code(score.hash)
    wrong = score.status == "wrong"
    marked = offending(source, score.message, score.evidence) if wrong else frozenset()
    return Part(
        score=score,
        mark=MARKS[score.outcome],
        status=score.status or "not graded",
        rows=told(score),
        rule_link=links.to_rule(score.rule),
        code=highlighted(source, marked) if source.strip() else None,
        before=highlighted(before) if source.strip() and before.strip() else None,
        picture=_picture(score) if wrong else None,
    )


def _picture(score: Score) -> Markup | None:
    """Return the Jacobians as HTML heat maps, in which all text is escaped."""
    pair = from_data(score.evidence.get(PICTURE))
    return Markup(shown(heatmap.as_html(pair))) if pair else None
