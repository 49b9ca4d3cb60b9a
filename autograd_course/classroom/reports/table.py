"""CSV: a row for each answer, or a row for each student as course sites import it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from autograd_course.classroom.gradebook import Gradebook
from autograd_course.classroom.gradebook.records import Score

_COLUMNS = (
    "student", "lesson", "exercise", "status", "points", "possible", "rule", "message", "problems",
    "remarks", "seconds", "code_hash", "seed", "settled_by", "settled_at",
    "comment", "changed_since",
)  # fmt: skip

# A spreadsheet runs what begins so. Names of files and messages come from students.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def as_csv(book: Gradebook) -> str:
    """Return one row for each student and exercise."""
    return "".join(csv_pieces(book))


def csv_pieces(book: Gradebook) -> Iterator[str]:
    """Yield the same, a student at a time."""
    yield _written([_COLUMNS])
    for student in book.students():
        yield _written(map(_row, book.scores(student)))


def as_grade_table(book: Gradebook) -> str:
    """Return one row for each student: points by exercise, their sum, what is possible.

    A student none of whose files could be read has a row too; what is not graded yet, or where the
    grader failed, is an empty field and not a 0.
    """
    return "".join(grade_table_pieces(book))


def grade_table_pieces(book: Gradebook) -> Iterator[str]:
    """Yield the same, a student at a time."""
    tallies = book.tallies()
    exercises = [tally.exercise for tally in tallies]
    possible = _number(sum(tally.possible for tally in tallies))
    yield _written([["student", *exercises, "total", "possible"]])
    for student in book.students():
        scores = {score.exercise: score for score in book.scores(student)}
        points = (_points(scores[e]) if e in scores else "" for e in exercises)
        total = _number(sum(score.points for score in scores.values()))
        yield _written([[student, *points, total, possible]])


def _row(score: Score) -> list[str]:
    s = score.settlement
    settled = [s.by, s.at, s.comment, "yes" if s.changed else ""] if s else [""] * 4
    return [
        score.student, score.lesson, score.exercise, score.status or "not graded", _points(score),
        _number(score.possible), score.rule, score.message, "; ".join(score.problems),
        "; ".join(score.remarks), f"{score.seconds:.3f}", score.hash, score.seed, *settled,
    ]  # fmt: skip


def _points(score: Score) -> str:
    return _number(score.points) if score.is_counted else ""


def _written(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_harmless(field) for field in row] for row in rows)
    return text.getvalue()


def _harmless(field: str) -> str:
    field = field.replace("\x00", "")
    return f"'{field}" if field.startswith(_FORMULA) else field


def _number(points: float) -> str:
    return f"{points:g}"
