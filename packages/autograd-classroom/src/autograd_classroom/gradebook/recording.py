"""Write verdicts to a gradebook. The caller must already have started a transaction."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime

from autograd_classroom.gradebook.records import Run, Score, as_json
from autograd_course.notebook_files import clean

_FAILURE_GIVES_WAY = """
    DELETE FROM results
    WHERE student = ? AND exercise = ? AND hash = ? AND grader = ? AND status = 'grader failed'
"""


def record(write: sqlite3.Connection, run: Run, score: Score) -> bool:
    """Record a verdict, unless one already exists. Return whether it was recorded."""
    s = score
    row = (
        s.student, s.exercise, s.hash, run.grader, run.id, s.seed or run.seed, s.status,
        s.points, s.rule, clean(s.message), as_json(s.evidence), as_json(s.remarks), s.seconds,
        now(),
    )  # fmt: skip
    write.execute(_FAILURE_GIVES_WAY, row[:4])
    marks = ", ".join("?" * len(row))
    done = write.execute(f"INSERT OR IGNORE INTO results VALUES ({marks})", row)
    return done.rowcount == 1


def record_for_all(write: sqlite3.Connection, run: Run, score: Score) -> int:
    """Record a verdict for each student whose answer contains the judged code.

    Return the number of recorded verdicts.
    """
    query = "SELECT student FROM answers WHERE exercise = ? AND hash = ?"
    students = [row[0] for row in write.execute(query, (score.exercise, score.hash))]
    return sum(record(write, run, replace(score, student=student)) for student in students)


def now() -> str:
    """Return the current time in the format that the gradebook stores."""
    return datetime.now(UTC).isoformat(timespec="seconds")
