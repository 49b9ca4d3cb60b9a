"""The SQL tables of a gradebook. Every change needs a new VERSION and its migration statements.

Opening a gradebook migrates an older file. A file with a newer version raises an error.
"""

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
    # Each piece of graded code is stored once for all students who handed it in. The code is needed
    # to reproduce a verdict.
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
    # A verdict applies to one version of the code and one version of the grader. Earlier
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
        # Points that an instructor set by hand. Rows are only added, and the last row for an answer
        # applies. A row without points removes the earlier points. The hash identifies the code
        # that the instructor saw, if there was any.
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
        # The instructor's settings and the roster, stored as JSON.
        """CREATE TABLE settings (
            name  TEXT PRIMARY KEY,
            value TEXT NOT NULL
        )""",
        # The time when each file was handed in, if it is known.
        "ALTER TABLE submissions ADD COLUMN handed_in TEXT NOT NULL DEFAULT ''",
    ),
}
