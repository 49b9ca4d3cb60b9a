"""CSV: a row for each answer, or a row for each student as course sites import it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from autograd_course.classroom.gradebook import Gradebook
from autograd_course.classroom.gradebook.records import Score

_COLUMNS = (
    "student", "lesson", "exercise", "status", "points", "possible", "rule", "message", "problems",
    "remarks", "seconds", "code_hash", "seed",
)  # fmt: skip

# A spreadsheet runs what begins so. Names of files and messages come from students.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(book: Gradebook) -> str:
    """Return one row for each student and exercise."""
    return _written(_COLUMNS, map(_row, book.scores()))


def as_grade_table(book: Gradebook) -> str:
    """Return one row for each student: points by exercise, their sum, what is possible.

    A student none of whose files could be read has a row too; what is not graded yet, or where the
    grader failed, is an empty field and not a 0.
    """
    scores = book.scores()
    exercises = list(dict.fromkeys(score.exercise for score in scores))
    points = {(s.student, s.exercise): _points(s) for s in scores}
    totals = dict.fromkeys(book.students(), 0.0)
    for score in scores:
        totals[score.student] += score.points
    possible = _number(sum({s.exercise: s.possible for s in scores}.values()))
    rows = (
        [name, *(points.get((name, e), "") for e in exercises), _number(totals[name]), possible]
        for name in totals
    )
    return _written(["student", *exercises, "total", "possible"], rows)


def _row(score: Score) -> list[str]:
    return [
        score.student, score.lesson, score.exercise, score.status or "not graded", _points(score),
        _number(score.possible), score.rule, score.message, "; ".join(score.problems),
        "; ".join(score.remarks), f"{score.seconds:.3f}", score.hash, score.seed,
    ]  # fmt: skip


def _points(score: Score) -> str:
    return "" if score.status in ("", "grader failed") else _number(score.points)


def _written(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_harmless(field) for field in row] for row in rows)
    return text.getvalue()


def _harmless(field: str) -> str:
    field = field.replace("\x00", "")
    return f"'{field}" if field.startswith(_FORMULA) else field


def _number(points: float) -> str:
    return f"{points:g}"
