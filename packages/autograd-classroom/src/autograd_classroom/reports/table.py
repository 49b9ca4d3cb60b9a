"""Two CSV tables. One has a row for each answer, and the other has a row for each student."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence

from autograd_classroom.gradebook import Gradebook
from autograd_classroom.gradebook.records import Score, total_points
from autograd_classroom.gradebook.roster import Person

_COLUMNS = (
    "student", "lesson", "exercise", "status", "points", "possible", "rule", "message", "problems",
    "remarks", "seconds", "code_hash", "seed", "settled_by", "settled_at",
    "comment", "changed_since", "late_days",
)  # fmt: skip

_PERSON = ("name", "id", "email", "group")

# Spreadsheets treat a cell as a formula if it begins with one of the characters in the last group.
# Students could exploit this, because they choose file names and can influence messages. Some
# spreadsheets also begin a new cell after a semicolon, a tab or the end of a line.
_BEGINS = re.compile(r'((?:^|[;\t\r\n])[\s"]*+)([=+\-@])?')
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]\d+)?", re.ASCII)


def as_csv(book: Gradebook) -> str:
    """Return a CSV table with one row for each student and exercise."""
    return "".join(csv_pieces(book))


def csv_pieces(book: Gradebook) -> Iterator[str]:
    """Yield the table of answers in pieces, one student at a time.

    If none of a student's answers could be read, the student has a single row, which gives the
    reason under ``problems``.
    """
    yield written([_COLUMNS])
    for student in book.students():
        rows = [_row(score) for score in book.scores(student)]
        yield written(rows or [_unread(student, book)])


def _unread(student: str, book: Gradebook) -> list[str]:
    found = "; ".join(f"{problem.source}: {problem.message}" for problem in book.problems(student))
    known = {"student": student, "status": "not graded", "problems": found}
    return [known.get(column, "") for column in _COLUMNS]


def as_grade_table(book: Gradebook) -> str:
    """Return a CSV table with each student's points per exercise, total points and possible points.

    If there is a roster, the columns name, id, email and group follow the ``student`` column. The
    table then also has a row for each student who handed in nothing, with an empty ``student``
    field. If none of a student's files could be read, the row has no total. If an answer has not
    been graded yet, or if the grader failed, the field for its points is empty instead of 0.
    """
    return "".join(grade_table_pieces(book))


def grade_table_pieces(book: Gradebook) -> Iterator[str]:
    """Yield the grade table in pieces, one student at a time."""
    exercises = [tally.exercise for tally in book.tallies()]
    possible = number(book.possible())
    people, enrolled = book.people(), bool(book.roster())
    about = _PERSON if enrolled else ()
    yield written([["student", *about, *exercises, "total", "possible"]])
    for student in book.students():
        scores = {score.exercise: score for score in book.scores(student)}
        points = (counted(scores[e]) if e in scores else "" for e in exercises)
        total = number(total_points(scores.values())) if scores else ""
        who = people.get(student, Person())
        yield written(
            [[student, *(getattr(who, field) for field in about), *points, total, possible]]
        )
    for who in book.unrecorded():
        row = ["", *(getattr(who, field) for field in about), *[""] * len(exercises), "0", possible]
        yield written([row])


def _row(score: Score) -> list[str]:
    s = score.settlement
    settled = [s.by, s.at, s.comment, "yes" if s.changed else ""] if s else [""] * 4
    return [
        score.student, score.lesson, score.exercise, score.status or "not graded", counted(score),
        number(score.possible), score.rule, score.message, "; ".join(score.problems),
        "; ".join(score.remarks), f"{score.seconds:.3f}", score.hash, score.seed, *settled,
        str(score.late or ""),
    ]  # fmt: skip


def counted(score: Score) -> str:
    """Return an answer's points as a string, which is empty if the answer has not been graded."""
    return number(score.points) if score.is_counted else ""


def written(rows: Iterable[Sequence[str]]) -> str:
    """Return the rows as CSV. Escape fields that a spreadsheet would treat as formulas."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_harmless(field) for field in row] for row in rows)
    return text.getvalue()


def _harmless(field: str) -> str:
    field = field.replace("\x00", "")
    if _NUMBER.fullmatch(field):
        return field
    return _BEGINS.sub(lambda begin: f"{begin[1]}'{begin[2]}" if begin[2] else begin[1], field)


def number(points: float) -> str:
    """Return a number of points as a string."""
    return f"{points:g}"
