"""Record the current submissions in the gradebook, one student at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autograd_classroom.gradebook import Gradebook
from autograd_classroom.gradebook.roster import Roster, matched
from autograd_classroom.ingest.collecting import (
    NOTHING,
    Listing,
    by_student,
    ignored,
    listing,
    of_student,
    require,
)
from autograd_classroom.ingest.students import student_of
from autograd_classroom.ingest.submission import Rejected, Submission, unread
from autograd_course.extraction import Answer, extract
from autograd_course.index import INDEX, Entry


@dataclass(frozen=True)
class HandedIn:
    """The number of recorded notebooks and the number of rejected files or folders.

    ``exercises`` are the exercises that count for every student: the requested ones or, if all
    were requested, those of the lessons in the folder. ``gone`` are the students in the gradebook
    whose notebooks of the requested lessons are no longer in the folder. ``ignored`` are the names
    of the files that no student seems to hand in.
    """

    notebooks: int = 0
    rejected: int = 0
    exercises: tuple[Entry, ...] = ()
    gone: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


def hand_in(
    book: Gradebook,
    root: Path,
    exercises: Iterable[Entry],
    step: Callable[[], None] = lambda: None,
    known: Known | None = None,
) -> HandedIn:
    """Record the submissions under ``root`` in the gradebook. Call ``step`` for each file.

    Take the answers to the requested exercises from each notebook. Ignore notebooks of other
    lessons, but record this as a problem if the gradebook has no submission of the student.
    ``known`` caches what earlier calls have read. With this cache, a call reads a student's files
    only if they have changed. Raises NoSubmissionsError if the folder does not exist.
    """
    wanted = tuple(exercises)
    notebooks = rejected = 0
    lessons: set[str] = set()
    elsewhere: dict[str, Submission] = {}  # by student
    kept: set[tuple[str, str]] = set()  # students and their lessons
    unread: set[str] = set()  # paths of rejected files and folders
    require(root)
    book.forget_rejected()
    owned = by_student(root)
    others = ignored(root)
    for file in _of_absent_students(others, owned, root, book.roster()):
        if known is not None:
            known[file.student] = (), ()
        others.remove(file.source)
        book.reject(file)
        rejected += 1
    for student, paths in sorted(owned.items()):
        for each, taken in _read(student, paths, root, wanted, known):
            step()
            if isinstance(each, Submission):
                lessons.add(each.lesson)
                kept.add((student, each.lesson))
            elif each.problem != NOTHING:
                unread.add(each.source)
            if isinstance(taken, Rejected):
                book.reject(taken)
                rejected += not taken.is_superseded
            elif isinstance(each, Submission) and taken:
                book.hand_in(each, taken)
                notebooks += 1
            elif isinstance(each, Submission):
                elsewhere.setdefault(student, each)
    for student in elsewhere.keys() - {name for name, *_ in book.submissions()}:
        book.reject(_of_another_lesson(elsewhere[student]))
    gone = {
        name
        for name, lesson, source in book.submissions()
        if lesson in {exercise.lesson for exercise in wanted}
        and (name, lesson) not in kept
        and not unread.intersection((source, *map(str, PurePosixPath(source).parents)))
    }
    asked = len(wanted) < len(INDEX)
    counted = tuple(e for e in wanted if asked or e.lesson in lessons)
    absent = sorted(gone) if root.is_dir() else ()
    return HandedIn(notebooks, rejected, counted, tuple(absent), tuple(others))


def _of_absent_students(
    names: Iterable[str], students: Iterable[str], root: Path, roster: Roster
) -> list[Rejected]:
    """Reject each file that no grader reads, if its student on the roster has handed in no other.

    ``names`` are the names of such files, and ``students`` have handed in other files.
    """
    owners = {name: student_of(PurePosixPath(name), root.stem) for name in names}
    people = matched([*students, *owners.values()], roster)
    present = {people.get(student) for student in students}
    return [
        Rejected(student, name, "it is not a notebook, a script or a zip file")
        for name, student in owners.items()
        if student in people and people[student] not in present
    ]


Taken = tuple[Submission | Rejected, tuple[Answer, ...] | Rejected]
Known = dict[str, tuple[Sequence[Listing], Sequence[Taken]]]  # by student


def _read(
    student: str, paths: list[Path], root: Path, wanted: Sequence[Entry], known: Known | None
) -> Iterable[Taken]:
    """Return a student's submissions with their answers."""
    now = [listing(path) for path in paths] if known is not None else []
    if known is not None and student in known and known[student][0] == now:
        return known[student][1]
    taken = [
        (each, each if isinstance(each, Rejected) else _answers(each, wanted))
        for each in of_student(student, paths, root)
    ]
    if known is not None:
        known[student] = now, taken
    return taken


def _of_another_lesson(submission: Submission) -> Rejected:
    lesson = submission.lesson[:2]
    problem = f"it belongs to lesson {lesson}, which this assignment does not include"
    return Rejected(submission.student, submission.source, problem)


def _answers(submission: Submission, wanted: Iterable[Entry]) -> tuple[Answer, ...] | Rejected:
    """Return the notebook's answers to the requested exercises in its lesson.

    If the file is damaged, a missing answer may have been lost. Such an answer gets no points
    instead of 0 points.
    """
    of_lesson = [exercise for exercise in wanted if exercise.lesson == submission.lesson]
    student, source = submission.student, submission.source
    try:
        answers = extract(submission.notebook, student, of_lesson)
    except Exception as error:
        return unread(student, source, error)
    if not of_lesson or submission.notebook.is_whole:
        return answers
    found = tuple(answer for answer in answers if answer.found)
    return found or Rejected(student, source, "; ".join(submission.problems))
