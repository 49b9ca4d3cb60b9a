"""Set points by hand. The caller must already have started a transaction."""

from __future__ import annotations

import sqlite3

from autograd_classroom.gradebook import reading
from autograd_classroom.gradebook.naming import near
from autograd_classroom.gradebook.opening import GradebookError
from autograd_classroom.gradebook.recording import now
from autograd_classroom.gradebook.records import Score
from autograd_course.notebook_files import clean

_LONGEST = 10_000  # maximum number of characters in a comment


class SettlingError(GradebookError):
    """Raised when an answer's points cannot be set by hand. The message is a single sentence."""


class ChangedMeanwhileError(SettlingError):
    """Raised when the score has changed since the instructor viewed it."""


def total_from(typed: str) -> float:
    """Parse a number of points with a decimal point or comma. Raises SettlingError.

    Reject a plus sign, because ``+1`` looks like an addition.
    """
    if not typed:
        raise SettlingError("the points are missing: give a number such as 0.5.")
    try:
        points = float(typed.replace(",", "."))
    except ValueError:
        raise SettlingError(f"{typed!r} is not a number: give a number such as 0.5.") from None
    if typed.startswith("+"):
        raise SettlingError(f"{typed} does not add points: give a number for the total, such as 3.")
    return points


def settle(
    write: sqlite3.Connection,
    score: Score,
    points: float | None,
    comment: str,
    by: str,
    seen: str | None,
) -> None:
    """Set points by hand or remove them; see :meth:`Gradebook.settle`."""
    if seen not in (None, score.stamp):
        raise ChangedMeanwhileError(
            f"{score.student}'s {score.exercise} has changed since you opened it: look at it again."
        )
    if points is not None and not 0 <= points <= score.possible:
        raise SettlingError(
            f"{score.exercise} is not worth {points:g}: give a number from 0 to {score.possible:g}."
        )
    if points is None and score.settlement is None:
        raise SettlingError(f"{score.student}'s {score.exercise} is not settled.")
    told = clean(comment).strip()
    if len(told) > _LONGEST:
        raise SettlingError(f"a comment has at most {_LONGEST} characters; this has {len(told)}.")
    row = (score.student, score.exercise, score.hash, points, told, clean(by), now())
    write.execute(
        "INSERT INTO settlements (student, exercise, hash, points, comment, by, at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        row,
    )


def score_of(connection: sqlite3.Connection, student: str, exercise: str) -> Score:
    """Return the score of an answer, or an empty score if the student did not hand in an answer.

    ``student`` is a name in the gradebook, or a name, id or address on the roster. Raises
    SettlingError if the student or the exercise is unknown.
    """
    student = reading.named(connection, student)
    students = [*reading.students(connection), *(p.label for p in reading.unrecorded(connection))]
    if student not in students:
        raise SettlingError(f"the gradebook has no student {student!r}{near(student, students)}.")
    for score in reading.scores(connection, student):
        if score.exercise == exercise:
            return score
    ids = [tally.exercise for tally in reading.tallies(connection)]
    query = "SELECT lesson, title, points FROM exercises WHERE exercise = ?"
    if exercise in ids and (row := connection.execute(query, (exercise,)).fetchone()):
        lesson, title, possible = row
        return Score(student, exercise, "", 0.0, lesson=lesson, title=title, possible=possible)
    raise SettlingError(f"no student has handed in the exercise {exercise!r}{near(exercise, ids)}.")
