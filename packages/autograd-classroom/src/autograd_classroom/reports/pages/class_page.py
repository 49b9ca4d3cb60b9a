"""The instructor's page. It shows the class's common mistakes and the answers that need review."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autograd_doctor import RULES

from autograd_classroom.gradebook import Gradebook
from autograd_classroom.reports.pages import links
from autograd_classroom.reports.pages.feedback import MARKS, feedback_name
from autograd_classroom.reports.pages.overview import most_first, overview
from autograd_classroom.reports.pages.rendering import rendered
from autograd_classroom.reports.wording import names
from autograd_classroom.similarity import Alike, Handed, Line, alike, side_by_side

_GROUPS = 60  # maximum number of groups on the page


@dataclass(frozen=True)
class Group:
    """Students with similar answers, and two of these answers side by side."""

    exercise: str
    students: list[str]
    percent: int
    names: tuple[str, str]
    lines: Iterator[Line]
    same: int  # number of students with the same code


def class_page(book: Gradebook) -> Iterator[str]:
    """Yield the page in pieces, and load an answer's code only when the page shows it."""
    seen = overview(book)
    found = _alike(book, list(seen.exercises))
    distribution, known = seen.distribution(), names(book)
    return rendered(
        "class.html",
        seen=seen,
        marks=MARKS,
        late=book.late(),
        distribution=distribution,
        tallest=max([count for _, count in distribution], default=0) or 1,
        hottest=max(map(len, seen.matrix.values()), default=1),
        repairs=list(most_first(seen.repairs)),
        unnamed=list(most_first(seen.unnamed)),
        raised=list(most_first(seen.raised)),
        absent=[(known[person], person.group) for person in book.absent()],
        people=book.people(),
        enrolled=bool(book.roster()),
        remarks=list(most_first(seen.remarks)),
        settled=list(most_first(seen.settled)),
        failures=list(most_first(seen.failures)),
        problems=book.problems(),
        groups=(_group(book, exercise, group) for exercise, group in found[:_GROUPS]),
        found=len(found),
        shown=min(_GROUPS, len(found)),
        link=links.to_rule,
        title=lambda rule: RULES[rule].title if rule in RULES else "",
        file=lambda student: f"feedback/{feedback_name(student)}",
    )


def _alike(book: Gradebook, exercises: list[str]) -> list[tuple[str, Alike]]:
    """Return an (exercise, group) pair for each group of similar answers, highest weight first.

    Keep the code for only one exercise in memory at a time.
    """
    found = [(e, group) for e in exercises for group in alike(_handed(book, e))]
    return sorted(found, key=lambda item: -item[1].weight)


def _handed(book: Gradebook, exercise: str) -> Iterator[Handed]:
    for digest, students, status in book.codes(exercise):
        _, _, source = book.code(digest)
        yield Handed(digest, source, students, attempted=status != "not attempted")


def _group(book: Gradebook, exercise: str, group: Alike) -> Group:
    students = sorted({s for code in group.codes for s in book.students_of(exercise, code)})
    left, right = ((book.students_of(exercise, code), book.code(code)[2]) for code in group.pair)
    return Group(
        exercise=exercise,
        students=students,
        percent=round(100 * group.share),
        names=(left[0][0], right[0][-1]),
        lines=side_by_side(left[1], right[1]),
        same=group.same,
    )
