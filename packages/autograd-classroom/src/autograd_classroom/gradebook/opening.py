"""The SQL tables of a gradebook, and functions that open or create one in a single transaction.

This module never changes a file that is not a gradebook. Every change to the tables needs a new
VERSION and migration statements. Opening an older gradebook migrates it. Opening a newer gradebook
raises an error.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from autograd_course.errors import CourseError

APPLICATION = 0x41434742  # "ACGB", in SQLite's header: this file is a gradebook
VERSION = 5
OLDEST = 3  # the version of TABLES, which is the oldest version that can be migrated

TABLES = (
    """CREATE TABLE runs (
        run      INTEGER PRIMARY KEY,
        seed     TEXT NOT NULL,
        grader   TEXT NOT NULL,
        started  TEXT NOT NULL,
        finished TEXT
    )""",
    """CREATE TABLE exercises (
        exercise TEXT PRIMARY KEY,
        lesson   TEXT NOT NULL,
        title    TEXT NOT NULL,
        points   REAL NOT NULL,
        position INTEGER NOT NULL
    )""",
    # Each piece of graded code, stored once for all students who handed it in. Reproducing a
    # verdict requires its code.
    """CREATE TABLE code (
        hash     TEXT PRIMARY KEY,
        name     TEXT NOT NULL,
        preamble TEXT NOT NULL,
        source   TEXT NOT NULL
    )""",
    # Each student's current submissions.
    """CREATE TABLE submissions (
        student  TEXT NOT NULL,
        lesson   TEXT NOT NULL,
        source   TEXT NOT NULL,
        hash     TEXT NOT NULL,
        problems TEXT NOT NULL,
        PRIMARY KEY (student, lesson)
    )""",
    """CREATE TABLE answers (
        student  TEXT NOT NULL,
        exercise TEXT NOT NULL REFERENCES exercises,
        hash     TEXT NOT NULL REFERENCES code,
        problems TEXT NOT NULL,
        PRIMARY KEY (student, exercise)
    )""",
    """CREATE TABLE rejected (
        student  TEXT NOT NULL,
        source   TEXT NOT NULL,
        problem  TEXT NOT NULL,
        PRIMARY KEY (student, source)
    )""",
    # A verdict belongs to one version of the code and one version of the grader. Earlier
    # submissions keep their own verdicts.
    """CREATE TABLE results (
        student  TEXT NOT NULL,
        exercise TEXT NOT NULL,
        hash     TEXT NOT NULL REFERENCES code,
        grader   TEXT NOT NULL,
        run      INTEGER NOT NULL REFERENCES runs,
        seed     TEXT NOT NULL,
        status   TEXT NOT NULL
            CHECK (status IN ('passed', 'wrong', 'not attempted', 'grader failed')),
        points   REAL NOT NULL,
        rule     TEXT NOT NULL,
        message  TEXT NOT NULL,
        evidence TEXT NOT NULL,
        remarks  TEXT NOT NULL,
        seconds  REAL NOT NULL,
        at       TEXT NOT NULL,
        PRIMARY KEY (student, exercise, hash, grader)
    )""",
    "CREATE INDEX answers_by_code ON answers (hash)",
)

CHANGES = {  # the statements that migrate to each version
    4: (
        # Points that an instructor set by hand. Rows never change, and the last row for an answer
        # takes effect. A row without points removes the earlier points. The hash identifies the
        # code that the instructor saw, if any.
        """CREATE TABLE settlements (
            settlement INTEGER PRIMARY KEY,
            student    TEXT NOT NULL,
            exercise   TEXT NOT NULL REFERENCES exercises,
            hash       TEXT NOT NULL,
            points     REAL,
            comment    TEXT NOT NULL,
            by         TEXT NOT NULL,
            at         TEXT NOT NULL
        )""",
        "CREATE INDEX settlements_by_answer ON settlements (student, exercise)",
        """CREATE VIEW settled AS
            SELECT * FROM settlements s WHERE points IS NOT NULL AND settlement = (
                SELECT max(settlement) FROM settlements t
                WHERE t.student = s.student AND t.exercise = s.exercise)""",
        # Everything that has a score: all answers, and points set by hand for a missing answer.
        """CREATE VIEW scored AS
            SELECT student, exercise, hash, problems FROM answers
            UNION ALL
            SELECT student, exercise, '', '[]' FROM settled s WHERE NOT EXISTS (
                SELECT 1 FROM answers a WHERE a.student = s.student AND a.exercise = s.exercise)""",
    ),
    5: (
        # The instructor's settings, the roster and the exercises that count, stored as JSON.
        """CREATE TABLE settings (
            name  TEXT PRIMARY KEY,
            value TEXT NOT NULL
        )""",
        # The time when each file was handed in, if it is known.
        "ALTER TABLE submissions ADD COLUMN handed_in TEXT NOT NULL DEFAULT ''",
    ),
}


_NO_ROOM = ("SQLITE_FULL", "SQLITE_IOERR")  # SQLITE_IOERR: not even the log fits on the disk
_IN_USE = ("SQLITE_BUSY", "SQLITE_LOCKED")
_NO_ACCESS = ("SQLITE_CANTOPEN", "SQLITE_READONLY")  # reading also needs to write the log's index
_PAUSE = 0.01  # seconds between two attempts
_WAIT = 60.0  # seconds to wait for other writers; each one writes for milliseconds


class GradebookError(CourseError):
    """Raised when a gradebook cannot be used. The message explains how to fix the problem."""


class GradebookInUseError(GradebookError):
    """Raised when another program is writing to the gradebook."""


def opened(path: Path) -> sqlite3.Connection:
    """Return a connection to the gradebook at ``path``, and create the file if it does not exist.

    Raises GradebookError if the file is damaged, has an unknown version, or is not a gradebook.
    """
    try:
        _refuse_others(path)
        connection = sqlite3.connect(path, timeout=_WAIT, isolation_level=None)
    except (sqlite3.Error, OSError) as error:
        raise unusable(path, error) from None
    try:
        _prepare(connection)
    except sqlite3.Error as error:
        connection.close()
        raise unusable(path, error) from None
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    connection.row_factory = sqlite3.Row
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.execute("PRAGMA foreign_keys = ON")
    _log_ahead(connection)
    connection.execute("PRAGMA synchronous = FULL")  # a recorded result survives a power failure
    known = _value(connection, "application_id"), _value(connection, "user_version")
    if known == (APPLICATION, VERSION):
        return  # so that reading does not wait until another program has finished writing
    connection.execute("BEGIN IMMEDIATE")
    if _value(connection, "application_id") == 0:  # no other process has created it in the meantime
        for table in TABLES:
            connection.execute(table)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {OLDEST}")
    for version in range(_value(connection, "user_version") + 1, VERSION + 1):
        for change in CHANGES[version]:
            connection.execute(change)
        connection.execute(f"PRAGMA user_version = {version}")
    connection.execute("COMMIT")


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Turn on the write-ahead log.

    If another process is also turning it on, wait for that process.
    """
    until = time.monotonic() + _WAIT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > until:
                raise
        time.sleep(_PAUSE)


def _refuse_others(path: Path) -> None:
    """Raise GradebookError if a file is not a gradebook, is damaged, or has an unknown version."""
    if not path.exists() or path.stat().st_size == 0:
        return
    uri = f"{path.absolute().as_uri()}?mode=rw"  # SQLite writes if it must recover a log
    with closing(sqlite3.connect(uri, uri=True, timeout=_WAIT, isolation_level=None)) as connection:
        # One statement sees one consistent state, even if another process is creating the file.
        application, version, tables = connection.execute(
            "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) "
            "FROM pragma_application_id, pragma_user_version"
        ).fetchone()
        if application == 0 and tables == 0:
            return  # the process that created the file was killed before its first transaction
        if application != APPLICATION:
            raise GradebookError(f"{path} is a database but no gradebook: name another file.")
        if not OLDEST <= version <= VERSION:
            raise GradebookError(
                f"{path} is a gradebook of version {version}, and this course reads {VERSION}: "
                "open it with the course that wrote it, or name a new file."
            )
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise unusable(path, "it is damaged")


def _value(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])


def unusable(path: Path, error: object) -> GradebookError:
    """Return the error for an unusable gradebook. Its message gives the reason and a solution."""
    first = str(error).partition("\n")[0]
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(_NO_ACCESS) and path.exists():
        for locked in (path.parent.absolute(), path):
            if not os.access(locked, os.W_OK):
                return GradebookError(
                    f"the gradebook {path} cannot be used, because {locked} is read-only: make it "
                    "writable, or copy the whole folder to a place where you can write."
                )
    if name.startswith(_IN_USE):
        return GradebookInUseError(
            f"another program is writing to the gradebook {path}: close that program, then try "
            "again."
        )
    if name.startswith(_NO_ROOM):
        return GradebookError(
            f"the gradebook {path} cannot be written ({first}). It keeps what was recorded. Make "
            "room on its disk, then run the command again; to continue a run, add --resume."
        )
    return GradebookError(
        f"the gradebook {path} cannot be used ({first}): it is left as it is; "
        "restore a copy of it, or name a new file."
    )
