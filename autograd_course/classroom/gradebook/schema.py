"""The gradebook's tables. A change of them is a new VERSION: files of another one are refused."""

APPLICATION = 0x41434742  # "ACGB", in SQLite's header: this file is a gradebook
VERSION = 3

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
    # The code that was graded, once, however many handed it in: a verdict can be made again.
    """CREATE TABLE code (
        hash     TEXT PRIMARY KEY,
        name     TEXT NOT NULL,
        preamble TEXT NOT NULL,
        source   TEXT NOT NULL
    )""",
    # What each student has handed in now.
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
    # A verdict holds for one code and one grader; what was handed in earlier keeps its own.
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
