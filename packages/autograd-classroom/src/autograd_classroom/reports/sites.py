"""Grades and feedback in formats that Canvas and Moodle can import."""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator

from autograd_classroom.gradebook import Gradebook
from autograd_classroom.gradebook.records import total_points
from autograd_classroom.gradebook.roster import Person
from autograd_classroom.ingest.downloads import top
from autograd_classroom.reports.pages import feedback_name
from autograd_classroom.reports.table import number, written

# Moodle writes no underscore into a name. A student's own file name may look like Moodle's.
_MOODLE = re.compile(r"(?P<name>[^_/]+)_(?P<user>\d+)_assignsubmission_(?:file|onlinetext)_?")
_CANVAS = re.compile(r"(?P<name>[^_/]+)(?:_LATE)?_(?P<user>\d+)_(?P<file>\d+)_[^/]+")
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # a fixed date, so that the same feedback gives the same zip file


def canvas_pieces(book: Gradebook) -> Iterator[str]:
    """Yield a gradebook in Canvas's import format. Each exercise is an assignment.

    Canvas identifies a student by the column ``ID``, which contains a number that Canvas assigned.
    If this column is empty, Canvas uses ``SIS User ID``, ``SIS Login ID`` or the name. Canvas reads
    the columns with this code:
    https://github.com/instructure/canvas-lms/blob/master/lib/gradebook_importer.rb
    """
    tallies, people = book.tallies(), _people(book)
    titles = [tally.title for tally in tallies]
    yield written([["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *titles]])
    possible = [number(tally.possible) for tally in tallies]
    yield written([["    Points Possible", "", "", "", "", *possible]])
    numbers = _numbers(book, _CANVAS)
    for student in book.students():
        who = people.get(student, Person(name=student))
        scores = {score.exercise: score for score in book.scores(student)}
        known = (scores.get(tally.exercise) for tally in tallies)
        points = [number(s.points) if s and s.is_counted else "" for s in known]
        about = [who.label, who.site or numbers.get(student, ""), who.id, who.login or who.email]
        yield written([[*about, who.group, *points]])


def moodle_pieces(book: Gradebook) -> Iterator[str]:
    """Yield a grading worksheet for one Moodle assignment. The grade is the sum of all points.

    If none of a student's files could be read, the grade is empty, and the comment explains why.

    Moodle identifies a student by the number in the column ``Identifier``. This number is part of
    the name of the student's downloaded folder. If the name contains no number, the field is empty.
    With the name and address columns, you can also import the file into Moodle's gradebook. Moodle
    reads the columns with this code:
    https://github.com/moodle/moodle/blob/main/mod/assign/feedback/offline/importgradeslib.php
    """
    yield written([
        ["Identifier", "Full name", "ID number", "Email address", "Grade", "Maximum Grade",
         "Last modified (grade)", "Feedback comments"]
    ])  # fmt: skip
    people = _people(book)
    possible = number(book.possible())
    numbers = _numbers(book, _MOODLE)
    for student in book.students():
        who = people.get(student, Person(name=student))
        scores = book.scores(student)
        complete = bool(scores) and all(score.is_counted for score in scores)
        grade = number(total_points(scores)) if complete else ""
        participant = f"Participant {numbers[student]}" if student in numbers else ""
        said = [f"{each.source}: {each.message}" for each in book.problems(student)]
        said += [
            f"{s.title}: {s.settlement.comment}"
            for s in scores
            if s.settlement and s.settlement.comment
        ]
        row = [participant, who.label, who.id, who.email, grade, possible, "", "\n".join(said)]
        yield written([row])


def unmatched(book: Gradebook, site: str) -> list[str]:
    """Return the students whose rows contain no identifier that Canvas or Moodle can match.

    ``site`` is ``"canvas"`` or ``"moodle"``. For such a row, Canvas tries the name. Moodle's
    grading worksheet skips the row.
    """
    numbers, people = _numbers(book, _CANVAS if site == "canvas" else _MOODLE), _people(book)
    students = (student for student in book.students() if student not in numbers)
    if site == "moodle":
        return [*students]
    known = {name for name, it in people.items() if it.site or it.id or it.login or it.email}
    return [student for student in students if student not in known]


def _numbers(book: Gradebook, pattern: re.Pattern[str]) -> dict[str, str]:
    """Map students to the numbers that Canvas or Moodle put into folder and file names."""
    return {s: match["user"] for s, top in _tops(book) if (match := pattern.fullmatch(top))}


class FeedbackZip:
    """A zip file of all students' pages, with file names that Moodle or Canvas recognizes.

    Moodle expects each page in a folder with the name of the student's downloaded folder
    (https://github.com/moodle/moodle/blob/main/mod/assign/feedback/file/importziplib.php). Canvas
    expects file names that begin like the downloaded ones: with the student's name, the user number
    and the file number (``generate_comments_from_files`` in
    https://github.com/instructure/canvas-lms/blob/master/app/models/assignment.rb).
    """

    def __init__(self, book: Gradebook) -> None:
        self._tops = dict(_tops(book))
        self._whole = io.BytesIO()
        self._archive = zipfile.ZipFile(self._whole, "w")

    def add(self, student: str, page: str) -> None:
        """Add a student's page."""
        entry = zipfile.ZipInfo(_place(student, self._tops.get(student, "")), _LONG_AGO)
        self._archive.writestr(entry, page, zipfile.ZIP_DEFLATED)

    def contents(self) -> bytes:
        """Close the zip file and return it."""
        self._archive.close()
        return self._whole.getvalue()


def _place(student: str, top: str) -> str:
    if _MOODLE.fullmatch(top):
        return f"{top}/feedback.html"
    if match := _CANVAS.fullmatch(top):
        return f"{match['name']}_{match['user']}_{match['file']}_feedback.html"
    return feedback_name(student)


def _tops(book: Gradebook) -> Iterator[tuple[str, str]]:
    """Yield each student with the folder name or file name that Moodle or Canvas assigned."""
    for student, source in book.sources():
        name = top(source)  # only a site can choose this part of the path
        if _MOODLE.fullmatch(name) or _CANVAS.fullmatch(name):
            yield student, name


def _people(book: Gradebook) -> dict[str, Person]:
    """Map students to people on the roster, but omit a person with several students.

    A site would import only one of their rows.
    """
    people = book.people()
    rows = Counter(people.values())
    return {student: person for student, person in people.items() if rows[person] == 1}
