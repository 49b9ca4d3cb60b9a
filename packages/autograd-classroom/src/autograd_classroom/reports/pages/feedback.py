"""A student's page, with the points, the code, the mistakes, and links to the lessons.

The page contains only data that the student is allowed to see. It does not contain seeds, remarks
for the instructor, other students' names, or error messages from the grader.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autograd_doctor import jacobians as heatmap
from autograd_doctor.formatting import listed
from markupsafe import Markup

from autograd_classroom.gradebook import Gradebook, Score, Settlement, Tally
from autograd_classroom.gradebook.records import total_points
from autograd_classroom.pictures import PICTURE, from_data
from autograd_classroom.protocol.evidence import ALSO
from autograd_classroom.reports.pages import links
from autograd_classroom.reports.pages.code import highlighted, offending
from autograd_classroom.reports.pages.rendering import rendered, shown
from autograd_classroom.reports.pages.telling import Told, told
from autograd_course.index import INDEX

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
        lost = score.possible - self.on_time
        return f"{listed(faults)} {verb} {lost:g} {'point' if lost == 1 else 'points'}."

    @property
    def on_time(self) -> float:
        """The points before the late days reduce them, or 0 if they cost all points."""
        cost = self.score.late_cost
        return round(self.score.points / (1 - cost), 3) if cost < 1 else 0.0

    @property
    def counted_as(self) -> str:
        """Return the CSS class that determines the colors."""
        return self.score.outcome.replace(" ", "-")


def feedback(
    book: Gradebook, student: str, name: str = "", tallies: Sequence[Tally] = ()
) -> Iterator[str]:
    """Yield one student's page in pieces. ``name`` is the name on the roster.

    ``tallies`` are those of :meth:`Gradebook.tallies`, if the caller already knows them.
    """
    counted = tallies or book.tallies()
    scores = book.scores(student)
    late = {(score.late, score.late_free) for score in scores if score.status != "not attempted"}
    return rendered(
        "feedback.html",
        name=name or student,
        late=late.pop()
        if len(late) == 1 and any(*late)
        else (),  # otherwise, each answer says how late it is
        points=total_points(scores),
        possible=sum(tally.possible for tally in counted),
        missing=_missing(counted, scores),
        complete=all(score.is_counted for score in scores),
        parts=[part(book, score) for score in scores],
        problems=book.problems(student),
    )


def _missing(tallies: Iterable[Tally], scores: Iterable[Score]) -> str:
    """Return the lessons and exercises without an answer from the student, with their points."""
    answered = {score.exercise for score in scores}
    lessons = {INDEX[exercise].lesson for exercise in answered if exercise in INDEX}
    points: defaultdict[str, float] = defaultdict(float)
    for tally in tallies:
        if tally.exercise not in answered:
            lesson = INDEX[tally.exercise].lesson if tally.exercise in INDEX else ""
            whole = lesson and lesson not in lessons
            points[f"lesson {lesson[:2]}" if whole else tally.title] += tally.possible
    named = [f"{name} ({n:g} {'point' if n == 1 else 'points'})" for name, n in points.items()]
    return listed(named, len(named)) if named else ""


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
