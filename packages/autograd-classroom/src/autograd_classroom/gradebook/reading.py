"""Queries that read a gradebook without changing it."""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import PurePosixPath
from typing import Any, get_args

from autograd_classroom.gradebook.recording import now
from autograd_classroom.gradebook.records import (
    Event,
    Problem,
    Run,
    Score,
    Settlement,
    Tally,
    Workload,
)
from autograd_classroom.gradebook.roster import Person, Roster, from_text, matched
from autograd_classroom.gradebook.roster import conflicting as roster_conflicts
from autograd_classroom.gradebook.settings import Late, Settings, from_data
from autograd_classroom.ingest.downloads import is_download
from autograd_classroom.protocol.evidence import ALSO, sound
from autograd_course.extraction import Answer
from autograd_course.grader.verdict import Status

_WITHOUT_VERDICT = """
    FROM answers a JOIN exercises e ON e.exercise = a.exercise
    WHERE NOT EXISTS (
        SELECT 1 FROM results r
        WHERE r.student = a.student AND r.exercise = a.exercise AND r.hash = a.hash
          AND r.grader = ? AND r.status != 'grader failed')
"""

_PENDING = f"""
    SELECT a.student, a.exercise, a.hash, a.problems {_WITHOUT_VERDICT}
    ORDER BY a.student, e.position
"""

# The queue is a temporary table in a separate file. Without the queue, the code of a whole class
# would have to fit in memory, or a long read transaction would prevent SQLite from checkpointing
# the log.
_QUEUE = f"""
    CREATE TEMP TABLE queue AS SELECT a.exercise, a.hash {_WITHOUT_VERDICT}
    AND a.exercise IN (SELECT value FROM json_each(?))
    GROUP BY a.exercise, a.hash ORDER BY e.position, a.hash
"""

_WORKLOAD = """
    SELECT count(*) FILTER (WHERE NOT done), count(*) FILTER (WHERE judged AND NOT done),
           count(*) FILTER (WHERE done)
    FROM (
        SELECT max(coalesce(r.grader = :grader, 0)) AS done, max(r.grader IS NOT NULL) AS judged
        FROM answers a LEFT JOIN results r ON r.student = a.student AND r.exercise = a.exercise
            AND r.hash = a.hash AND r.status != 'grader failed'
        WHERE a.exercise IN (SELECT value FROM json_each(:exercises))
        GROUP BY a.student, a.exercise)
"""

# If several versions of the grader judged the current code, use the verdict from the latest run.
_JUDGED = """
    FROM scored a JOIN exercises e ON e.exercise = a.exercise
    LEFT JOIN results r ON r.rowid = (
        SELECT rowid FROM results s
        WHERE s.student = a.student AND s.exercise = a.exercise AND s.hash = a.hash
        ORDER BY s.run DESC LIMIT 1)
    LEFT JOIN settled h ON h.student = a.student AND h.exercise = a.exercise
"""

_SCORES = f"""
    SELECT a.student, a.exercise, a.hash, a.problems, e.lesson, e.title, e.points AS possible,
           r.status, r.points, r.rule, r.message, r.evidence, r.remarks, r.seconds, r.seed,
           h.points AS given, h.comment, h.by, h.at AS settled_at, h.settlement,
           h.hash != a.hash AS changed {_JUDGED}
    WHERE ? IN ('', a.student)
    ORDER BY a.student, e.position
"""

# The same query without the long columns. It reads only the part of the evidence that affects the
# points.
_OUTLINE = _SCORES.replace(
    "r.message, r.evidence",
    """'' AS message, CASE WHEN json_valid(r.evidence) THEN
           CASE WHEN json_type(r.evidence, '$.also') = 'array'
               THEN json_object('also', json(json_extract(r.evidence, '$.also'))) ELSE '{}' END
           ELSE '{}' END AS evidence""",
)

_HISTORY = """
    SELECT at, hash, points, status, rule, '' AS by, '' AS comment, rowid AS number FROM results
    WHERE student = :student AND exercise = :exercise
    UNION ALL
    SELECT at, hash, points, '', '', by, comment, rowid FROM settlements
    WHERE student = :student AND exercise = :exercise
    ORDER BY at, number
"""

_CODES = f"""
    SELECT a.hash, count(*) AS students, max(coalesce(r.status, '')) AS status {_JUDGED}
    WHERE a.exercise = ? AND a.hash != '' GROUP BY a.hash ORDER BY a.hash
"""

_COUNTS = f"""
    SELECT a.exercise, e.title, coalesce(r.rule, '') AS rule,
           iif(h.points IS NULL, coalesce(r.status, ''), 'settled') AS status,
           e.points AS possible, count(*) AS answers, e.position AS position {_JUDGED}
    GROUP BY a.exercise, 3, 4
    UNION ALL
    SELECT exercise, title, '', '', points, 0, position FROM exercises
    WHERE exercise IN (SELECT value FROM json_each(?))
    ORDER BY position, answers DESC, rule
"""

_POSSIBLE = """
    SELECT total(points) FROM exercises
    WHERE exercise IN (SELECT value FROM json_each(?)) OR exercise IN (SELECT exercise FROM scored)
"""

_PROBLEMS = """
    SELECT student, source, problem FROM rejected WHERE :student IN ('', student)
    UNION ALL
    SELECT student, source, j.value FROM submissions,
        json_each(iif(json_valid(problems), problems, '[]')) j
    WHERE :student IN ('', student)
    ORDER BY 1, 2
"""

_VERDICT = frozenset(("status", "points", "rule", "message"))
_OF_RESULTS = (*sorted(_VERDICT), "remarks", "seconds", "seed")

_STUDENTS = """
    SELECT student FROM submissions UNION SELECT student FROM rejected
    UNION SELECT student FROM settled ORDER BY 1
"""


def pending(connection: sqlite3.Connection, run: Run) -> Iterator[Answer]:
    """Yield the answers that have no verdict, using one snapshot of the gradebook."""
    for row in connection.execute(_PENDING, (run.grader,)).fetchall():
        name, before, source = code(connection, row["hash"])  # one at a time, to save memory
        said = _checked("problems", row["problems"]) or ()
        yield Answer(row["exercise"], row["student"], name, source, before, said)


def queue(connection: sqlite3.Connection, run: Run, exercises: Iterable[str]) -> Workload:
    """Queue each piece of code that has no verdict, and count the answers."""
    names = json.dumps(list(exercises))
    connection.execute("DROP TABLE IF EXISTS temp.queue")
    connection.execute(_QUEUE, (run.grader, names))
    counted = {"grader": run.grader, "exercises": names}
    return Workload(*connection.execute(_WORKLOAD, counted).fetchone())


def queued(connection: sqlite3.Connection) -> Iterator[Answer]:
    """Yield the queued code, one piece at a time, without student names."""
    number = 1
    while row := connection.execute(
        "SELECT exercise, hash FROM temp.queue WHERE rowid = ?", (number,)
    ).fetchone():
        name, before, source = code(connection, row["hash"])
        yield Answer(row["exercise"], "", name, source, before)
        number += 1


def scores(connection: sqlite3.Connection, student: str) -> list[Score]:
    """Return the scores of all current answers, or only of the named student's answers."""
    return _scores(connection, _SCORES, student)


def outline(connection: sqlite3.Connection) -> list[Score]:
    """Return the scores of all students, without their messages and evidence."""
    return _scores(connection, _OUTLINE, "")


def settings(connection: sqlite3.Connection) -> Settings:
    """Return the instructor's settings."""
    stored = _set(connection, "assignment")
    return from_data(stored if isinstance(stored, dict) else {})


def roster(connection: sqlite3.Connection) -> Roster:
    """Return the class roster."""
    return from_text(_set(connection, "roster"))


def people(connection: sqlite3.Connection) -> dict[str, Person]:
    """Map each student in the gradebook to the matching person on the roster."""
    return matched(students(connection), roster(connection), _own(connection))


def conflicting(connection: sqlite3.Connection) -> dict[str, Person]:
    """Map each student to the person on the roster who has the same number but a different name."""
    return roster_conflicts(students(connection), roster(connection), _own(connection))


def _own(connection: sqlite3.Connection) -> set[str]:
    """Return the students who have files, but none with a name that a course site generated."""
    found = sources(connection)
    named = {s for s, source in found if any(map(is_download, PurePosixPath(source).parts))}
    return {student for student, _ in found} - named


def absent(connection: sqlite3.Connection) -> list[Person]:
    """Return the students on the roster who have not handed in anything."""
    owners = people(connection)
    present = {owners[student] for student, _ in sources(connection) if student in owners}
    return [person for person in roster(connection) if person not in present]


def unrecorded(connection: sqlite3.Connection) -> list[Person]:
    """Return the absent students who have no points set by hand either."""
    present = set(people(connection).values())
    return [person for person in roster(connection) if person not in present]


def late(connection: sqlite3.Connection) -> dict[str, int]:
    """Map each student with late work to the largest number of late days in any lesson."""
    lateness = _lateness(connection, settings(connection), "")
    return {name: max(late.days for late in lateness[name].values())
            for name in sorted(lateness) if lateness[name]}  # fmt: skip


def ahead(connection: sqlite3.Connection) -> list[str]:
    """Return the students who handed in a lesson with a deadline at a time in the future."""
    query = """
        SELECT DISTINCT student FROM submissions
        WHERE handed_in > ? AND lesson IN (SELECT value FROM json_each(?)) ORDER BY 1
    """
    lessons = json.dumps(list(settings(connection).deadlines))
    return [row[0] for row in connection.execute(query, (now(), lessons))]


def named(connection: sqlite3.Connection, name: str) -> str:
    """Return the student with this name in the gradebook or on the roster.

    If no student matches, return the name itself.
    """
    if name in students(connection):
        return name
    person = matched([name], roster(connection)).get(name)
    found = [student for student, who in people(connection).items() if who == person]
    return found[0] if len(found) == 1 else person.label if person and not found else name


def unknown_extensions(connection: sqlite3.Connection) -> tuple[list[str], list[str]]:
    """Return the names in the extensions table that match no student, and several students."""
    names, present = list(settings(connection).extensions), students(connection)
    enrolled = roster(connection)
    known = {*present, *matched(names, enrolled)}
    unknown = [name for name in names if name not in known]

    def is_of_several(name: str) -> bool:
        handed_in = matched(present, (Person(name),))
        return len(handed_in) > 1 or sum(name in matched([name], (p,)) for p in enrolled) > 1

    several = [name for name in unknown if is_of_several(name)]
    return [name for name in unknown if name not in several], several


def sources(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return a (student, path) pair for each submitted file, whether or not the file was graded."""
    query = "SELECT student, source FROM submissions UNION SELECT student, source FROM rejected"
    return [(row[0], row[1]) for row in connection.execute(f"{query} ORDER BY 1, 2")]


def submissions(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Return a (student, lesson, path) triple for each submitted notebook."""
    query = "SELECT student, lesson, source FROM submissions ORDER BY 1, 2"
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


def _set(connection: sqlite3.Connection, name: str) -> Any:
    query = "SELECT value FROM settings WHERE name = ?"
    row = connection.execute(query, (name,)).fetchone()
    return _json(row[0]) if row else None


def _scores(connection: sqlite3.Connection, query: str, student: str) -> list[Score]:
    found = settings(connection)
    late = _lateness(connection, found, student)
    return [_counted(_score(row), found, late) for row in connection.execute(query, (student,))]


def _lateness(
    connection: sqlite3.Connection, settings: Settings, student: str
) -> dict[str, dict[str, Late]]:
    if not settings.deadlines:
        return {}
    handed_in: defaultdict[str, dict[str, str]] = defaultdict(dict)
    query = "SELECT student, lesson, handed_in FROM submissions WHERE ? IN ('', student)"
    for name, lesson, time in connection.execute(query, (student,)):
        handed_in[name][lesson] = time
    owners = matched(settings.extensions, roster(connection)) if settings.extensions else {}
    known = people(connection) if owners else {}
    return {
        name: settings.lateness(
            times, (name, *(other for other, who in owners.items() if who == known.get(name)))
        )
        for name, times in handed_in.items()
    }


def _counted(score: Score, settings: Settings, lateness: dict[str, dict[str, Late]]) -> Score:
    """Return the score with its final points.

    The final points account for partial credit, late days and points set by hand.
    """
    late = lateness.get(score.student, {}).get(score.lesson, Late())
    points = score.points
    if score.status == "wrong" and score.rule:
        credit = settings.credit((score.rule, *score.evidence.get(ALSO, ())))
        points = credit * score.possible
    points = round(points * (1 - late.cost), 4)
    if score.settlement:
        points = score.settlement.points
    return replace(score, points=points, late=late.days, late_free=late.free, late_cost=late.cost)


def history(connection: sqlite3.Connection, student: str, exercise: str) -> list[Event]:
    """Return the verdicts on an answer and the points set by hand, oldest first."""
    named = {"student": student, "exercise": exercise}
    return [Event(*row[:-1]) for row in connection.execute(_HISTORY, named)]


def tallies(connection: sqlite3.Connection) -> list[Tally]:
    """Return a summary of the results for each exercise that counts; see `Gradebook.expect`."""
    rows = connection.execute(_COUNTS, (_expected(connection),)).fetchall()
    return [_tally(list(group)) for _, group in groupby(rows, key=lambda row: str(row["exercise"]))]


def possible(connection: sqlite3.Connection) -> float:
    """Return the sum of the points of all exercises that count."""
    return float(connection.execute(_POSSIBLE, (_expected(connection),)).fetchone()[0])


def _expected(connection: sqlite3.Connection) -> str:
    stored = _set(connection, "exercises")
    return json.dumps(stored if isinstance(stored, list) else [])


def _tally(rows: list[sqlite3.Row]) -> Tally:
    counts: Counter[str] = Counter()
    broken: Counter[str] = Counter()
    for row in filter(lambda row: row["answers"], rows):
        counts[row["status"]] += row["answers"]
        if row["status"] in ("wrong", "settled") and row["rule"]:
            broken[row["rule"]] += row["answers"]
    rule, most = min(broken.items(), key=lambda it: (-it[1], it[0]), default=("", 0))
    ties = sum(count == most for count in broken.values()) - bool(broken)
    first = rows[0]
    return Tally(first["exercise"], first["title"], counts, rule, most, ties, first["possible"])


def problems(connection: sqlite3.Connection, student: str) -> list[Problem]:
    """Return the problems with submitted files."""
    return [Problem(*row) for row in connection.execute(_PROBLEMS, {"student": student})]


def students(connection: sqlite3.Connection) -> list[str]:
    """Return the names of all students who handed in a file or have points set by hand."""
    return [row[0] for row in connection.execute(_STUDENTS)]


def codes(connection: sqlite3.Connection, exercise: str) -> Iterator[tuple[str, int, str]]:
    """Yield the hash, number of students and status of each distinct answer to an exercise."""
    yield from map(tuple, connection.execute(_CODES, (exercise,)).fetchall())


def students_of(connection: sqlite3.Connection, exercise: str, digest: str) -> list[str]:
    """Return the students whose answer to an exercise has this code."""
    query = "SELECT student FROM answers WHERE exercise = ? AND hash = ? ORDER BY student"
    return [row[0] for row in connection.execute(query, (exercise, digest))]


def code(connection: sqlite3.Connection, digest: str) -> tuple[str, str, str]:
    """Return the name, preamble and source of the code with this hash, or empty strings."""
    query = "SELECT name, preamble, source FROM code WHERE hash = ?"
    row = connection.execute(query, (digest,)).fetchone()
    if row is None or not all(isinstance(part, str) for part in row):
        return "", "", ""
    return row["name"], row["preamble"], row["source"]


def _score(row: sqlite3.Row) -> Score:
    """Convert a row to a score. Omit damaged values, and list them in a remark.

    If the verdict itself is damaged, treat the answer as not graded.
    """
    judged = row["status"] is not None
    stored = _json(row["evidence"]) if judged else {}
    evidence = sound(stored)
    found = {name: _checked(name, row[name]) for name in (_OF_RESULTS if judged else ())}
    damaged = [name for name, value in found.items() if value is None]
    damaged += ["evidence"] * (evidence != stored)
    damaged += ["settlement"] * (
        bool(row["settlement"]) and _checked("points", row["given"]) is None
    )
    lost = {*damaged, *(_VERDICT if _VERDICT.intersection(damaged) else ())}
    kept: dict[str, Any] = {"status": "", "points": 0.0}
    kept |= {name: value for name, value in found.items() if name not in lost}
    if damaged:
        kept["damage"] = f"has a damaged record in the gradebook ({', '.join(damaged)})"
        kept["remarks"] = (*kept.get("remarks", ()), kept["damage"])
    return Score(
        student=row["student"],
        exercise=row["exercise"],
        hash=row["hash"],
        lesson=row["lesson"],
        title=row["title"],
        possible=_checked("possible", row["possible"]) or 0.0,
        problems=_checked("problems", row["problems"]) or (),
        evidence=evidence,
        **(kept | _settled(row)),
    )


def _settled(row: sqlite3.Row) -> dict[str, Any]:
    """Return a dict with the settlement, or an empty dict if no points were set by hand."""
    points = _checked("points", row["given"])
    if points is None:
        return {}
    comment, by, at = (_checked(name, row[name]) or "" for name in ("comment", "by", "settled_at"))
    settlement = Settlement(points, comment, by, at, row["settlement"], bool(row["changed"]))
    return {"settlement": settlement}


def _checked(name: str, value: Any) -> Any:
    """Return a column's parsed value, or ``None`` if the value is damaged."""
    match name:
        case "status":
            return value if value in get_args(Status) else None
        case "points" | "possible" | "seconds":
            return value if isinstance(value, float) and 0 <= value < math.inf else None
        case "problems" | "remarks":
            data = _json(value)
            texts = isinstance(data, list) and all(isinstance(item, str) for item in data)
            return tuple(data) if texts else None
    return value if isinstance(value, str) else None


def _json(value: Any) -> Any:
    try:
        return json.loads(value)
    except (TypeError, ValueError, RecursionError):
        return None
