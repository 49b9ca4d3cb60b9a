"""The operations on a gradebook.

Each write is one transaction, so a crash cannot leave it half done.

With SQLite's write-ahead log (WAL), processes can read while another one writes. Writers wait for
each other. Store the file on a local disk of the grading machine, because WAL does not work on a
network file system.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from autograd_classroom.gradebook import reading, recording, settling
from autograd_classroom.gradebook.opening import GradebookError, opened, unusable
from autograd_classroom.gradebook.recording import now
from autograd_classroom.gradebook.records import (
    Event,
    Problem,
    Run,
    Score,
    Tally,
    Workload,
    as_json,
)
from autograd_classroom.gradebook.roster import Person, Roster, as_text
from autograd_classroom.gradebook.settings import Settings
from autograd_classroom.ingest import Rejected, Submission
from autograd_course.extraction import Answer
from autograd_course.index import Entry
from autograd_course.notebook_files import clean


class Gradebook:
    """An open gradebook. Use it in a ``with`` block, and open one for each process and thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = opened(path)

    @classmethod
    def existing(cls, path: Path) -> Gradebook:
        """Open an existing gradebook. Raises GradebookError if the file does not exist."""
        if path.is_dir():
            beside = Path(f"{path}-grades", "gradebook.sqlite")
            file = beside if beside.is_file() else path / "gradebook.sqlite"
            raise GradebookError(f"{path} is a folder: name the gradebook's file, such as {file}.")
        if not path.is_file():
            raise GradebookError(f"there is no gradebook {path}: grade writes one.")
        if path.stat().st_size == 0:
            raise GradebookError(f"{path} is empty, not a gradebook: grade writes one.")
        return cls(path)

    def begin(self, exercises: Iterable[Entry], grader: str, *, resume: bool = False) -> Run:
        """Start a new run with a new secret seed.

        If ``resume`` is true and there is an unfinished run, return the last unfinished run
        instead. ``grader`` is the version of the rules and the exercises. The run replaces verdicts
        from other versions.
        """
        with self._transaction() as write:
            rows = [(e.id, e.lesson, e.title, e.points, i) for i, e in enumerate(exercises)]
            write.executemany("INSERT OR REPLACE INTO exercises VALUES (?, ?, ?, ?, ?)", rows)
            query = "SELECT * FROM runs WHERE finished IS NULL AND grader = ? ORDER BY run DESC"
            if resume and (row := write.execute(query, (grader,)).fetchone()):
                return Run(row["run"], row["seed"], row["grader"])
            seed = secrets.token_hex(16)
            insert = "INSERT INTO runs (seed, grader, started) VALUES (?, ?, ?)"
            number = write.execute(insert, (seed, grader, now())).lastrowid
            return Run(int(number or 0), seed, grader)

    def finish(self, run: Run) -> None:
        """Mark a run as complete, so that later commands do not resume it."""
        with self._transaction() as write:
            write.execute("UPDATE runs SET finished = ? WHERE run = ?", (now(), run.id))

    def hand_in(self, submission: Submission, answers: Iterable[Answer]) -> None:
        """Record a submission and its answers as the student's current work.

        Keep earlier verdicts.
        """
        s = submission
        known = "SELECT handed_in FROM submissions WHERE student = ? AND lesson = ? AND hash = ?"
        with self._transaction() as write:
            before = write.execute(known, (s.student, s.lesson, s.hash)).fetchone()
            first = before[0] if before else ""  # the same file was downloaded again
            time = min(filter(None, (s.handed_in, first)), default="")
            about = (s.student, s.lesson, s.source, s.hash, as_json(s.problems), time)
            write.execute("INSERT OR REPLACE INTO submissions VALUES (?, ?, ?, ?, ?, ?)", about)
            for a in answers:
                code = (a.hash, a.name, clean(a.preamble), clean(a.source))
                write.execute("INSERT OR IGNORE INTO code VALUES (?, ?, ?, ?)", code)
                row = (a.student, a.exercise, a.hash, as_json(a.problems))
                write.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)", row)

    def reject(self, rejected: Rejected) -> None:
        """Record a file that was not graded, and the reason."""
        row = (rejected.student, rejected.source, clean(rejected.problem))
        with self._transaction() as write:
            write.execute("INSERT OR REPLACE INTO rejected VALUES (?, ?, ?)", row)

    def forget_rejected(self) -> None:
        """Delete the records of all rejected files. Call this before you read the files again."""
        with self._transaction() as write:
            write.execute("DELETE FROM rejected")

    def pending(self, run: Run) -> Iterator[Answer]:
        """Yield the current answers that still need a verdict from this version of the grader."""
        return reading.pending(self._connection, run)

    def queue(self, run: Run, exercises: Iterable[Entry]) -> Workload:
        """Queue the code that still needs a verdict, and count the answers."""
        return reading.queue(self._connection, run, [exercise.id for exercise in exercises])

    def queued(self) -> Iterator[Answer]:
        """Yield the queued code.

        Each piece of code appears once, without student names.
        """
        return reading.queued(self._connection)

    def record(self, run: Run, score: Score) -> bool:
        """Record a verdict. If a verdict already exists, change nothing and return False.

        The status "grader failed" does not count as a verdict, so a later verdict replaces it.
        """
        with self._transaction() as write:
            return recording.record(write, run, score)

    def record_for_all(self, run: Run, score: Score) -> int:
        """Record a verdict for each current answer that contains the judged code.

        Return the number of recorded verdicts.
        """
        with self._transaction() as write:
            return recording.record_for_all(write, run, score)

    def settle(
        self,
        student: str,
        exercise: str,
        points: float | None,
        comment: str,
        by: str,
        *,
        seen: str | None = None,
    ) -> Score:
        """Set an answer's points by hand, regardless of its verdict. ``None`` removes these points.

        A grading run never changes points set by hand. ``seen`` is the :attr:`Score.stamp` that the
        instructor saw. If the stamp has since changed, write nothing and raise
        ChangedMeanwhileError. Return the current score. Raises SettlingError.
        """
        with self._transaction() as write:
            score = settling.score_of(write, student, exercise)
            settling.settle(write, score, points, comment, by, seen)
            return settling.score_of(write, student, exercise)

    def expect(self, exercises: Iterable[Entry]) -> None:
        """Replace the list of exercises that count even if no file has a readable answer to them.

        Every submitted exercise counts too.
        """
        self._set("exercises", as_json([exercise.id for exercise in exercises]))

    def settings(self) -> Settings:
        """Return the assignment's settings."""
        return reading.settings(self._connection)

    def set(self, settings: Settings) -> None:
        """Replace the assignment's settings."""
        self._set("assignment", settings.to_json())

    def enroll(self, roster: Roster) -> None:
        """Replace the class roster."""
        self._set("roster", as_text(roster))

    def _set(self, name: str, value: str) -> None:
        with self._transaction() as write:
            write.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    def roster(self) -> Roster:
        """Return the class roster."""
        return reading.roster(self._connection)

    def people(self) -> dict[str, Person]:
        """Map each student in the gradebook to the matching person on the roster."""
        return reading.people(self._connection)

    def conflicting(self) -> dict[str, Person]:
        """Map each student to the person on the roster with the same number but another name."""
        return reading.conflicting(self._connection)

    def absent(self) -> list[Person]:
        """Return the students on the roster who have not handed in anything."""
        return reading.absent(self._connection)

    def unrecorded(self) -> list[Person]:
        """Return the absent students who have no points set by hand either."""
        return reading.unrecorded(self._connection)

    def late(self) -> dict[str, int]:
        """Map each student with late work to the largest number of late days in any lesson."""
        return reading.late(self._connection)

    def ahead(self) -> list[str]:
        """Return the students who handed in a lesson with a deadline at a time in the future."""
        return reading.ahead(self._connection)

    def named(self, name: str) -> str:
        """Return the student who has this name in the gradebook or on the roster.

        If no student matches, return the name itself.
        """
        return reading.named(self._connection, name)

    def unknown_extensions(self) -> tuple[list[str], list[str]]:
        """Return the names in the extensions table that match no student, and several students."""
        return reading.unknown_extensions(self._connection)

    def sources(self) -> list[tuple[str, str]]:
        """Return a (student, path) pair for each submitted file."""
        return reading.sources(self._connection)

    def submissions(self) -> list[tuple[str, str, str]]:
        """Return a (student, lesson, path) triple for each submitted notebook."""
        return reading.submissions(self._connection)

    def score_of(self, student: str, exercise: str) -> Score:
        """Return the score of one answer. Raises SettlingError if a name is unknown."""
        return settling.score_of(self._connection, student, exercise)

    def scores(self, student: str = "") -> list[Score]:
        """Return the scores of all current answers, sorted by student and then in course order."""
        return reading.scores(self._connection, student)

    def outline(self) -> list[Score]:
        """Return all scores without their messages and evidence, which make up most of the file."""
        return reading.outline(self._connection)

    def history(self, student: str, exercise: str) -> list[Event]:
        """Return the verdicts on an answer and the points set by hand, oldest first."""
        return reading.history(self._connection, student, exercise)

    def tallies(self) -> list[Tally]:
        """Return a summary of the results for each exercise that counts, in course order."""
        return reading.tallies(self._connection)

    def possible(self) -> float:
        """Return the points that every student could get."""
        return reading.possible(self._connection)

    def students(self) -> list[str]:
        """Return all students who handed in a file, even an unreadable one, or have points."""
        return reading.students(self._connection)

    def problems(self, student: str = "") -> list[Problem]:
        """Return the problems with submitted files, such as why a file was not graded."""
        return reading.problems(self._connection, student)

    def code(self, digest: str) -> tuple[str, str, str]:
        """Return the name, preamble and source of the code with this hash."""
        return reading.code(self._connection, digest)

    def codes(self, exercise: str) -> Iterator[tuple[str, int, str]]:
        """Yield the hash, number of students and status of each distinct answer to an exercise."""
        return reading.codes(self._connection, exercise)

    def students_of(self, exercise: str, digest: str) -> list[str]:
        """Return the students whose answer to an exercise has this code."""
        return reading.students_of(self._connection, exercise, digest)

    def close(self) -> None:
        """Close the gradebook file."""
        self._connection.close()

    def __enter__(self) -> Gradebook:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the gradebook file. Raises GradebookError if SQLite could not read or write it."""
        self.close()
        if isinstance(error, sqlite3.Error):
            raise unusable(self._path, error) from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # if the disk is full, SQLite has already ended it
                self._connection.execute("ROLLBACK")
            raise
