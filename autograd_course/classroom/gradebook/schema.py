"""The gradebook's tables. Each change needs a new VERSION, with the statements that migrate to it.

An older file is migrated when it is opened. A file with a newer version raises an error.
"""

APPLICATION = 0x41434742  # "ACGB", in SQLite's header: this file is a gradebook
VERSION = 5
OLDEST = 3  # the version of TABLES, and the oldest version that can be migrated

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
    # The graded code, once for all students who handed it in, so that a verdict can be reproduced.
    """CREATE TABLE code (
        hash     TEXT PRIMARY KEY,
        name     TEXT NOT NULL,
        preamble TEXT NOT NULL,
        source   TEXT NOT NULL
    )""",
    # The current submissions of each student.
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
    # A verdict applies to one code and one grader. Earlier submissions keep their own verdicts.
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

CHANGES = {  # by the version to which they migrate
    4: (
        # Points that an instructor gave by hand. Rows are only added. The last row of an answer
        # applies, and a row without points withdraws it. The hash is of the code that the
        # instructor saw, if any.
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
        # Everything with a score: the answers, and settlements without an answer.
        """CREATE VIEW scored AS
            SELECT student, exercise, hash, problems FROM answers
            UNION ALL
            SELECT student, exercise, '', '[]' FROM settled s WHERE NOT EXISTS (
                SELECT 1 FROM answers a WHERE a.student = s.student AND a.exercise = s.exercise)""",
    ),
    5: (
        # The instructor's settings and the roster, as JSON.
        """CREATE TABLE settings (
            name  TEXT PRIMARY KEY,
            value TEXT NOT NULL
        )""",
        # When each file was handed in, if the time is known.
        "ALTER TABLE submissions ADD COLUMN handed_in TEXT NOT NULL DEFAULT ''",
    ),
}
