"""Collect the submissions in a folder, one student at a time."""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from autograd_classroom.ingest.downloads import (
    by_site,
    is_download,
    is_of_many,
    students_in,
)
from autograd_classroom.ingest.files import (
    ZIP,
    Found,
    Left,
    found,
    is_interesting,
    is_skipped,
    printable,
)
from autograd_classroom.ingest.gradescope import exported_in
from autograd_classroom.ingest.students import lesson_in, student_of
from autograd_classroom.ingest.submission import Rejected, Submission, unread
from autograd_classroom.ingest.times import handed_in, recorded
from autograd_classroom.paths import REPORTS_MARK
from autograd_course.errors import CourseError
from autograd_course.extraction.extracting import attempted
from autograd_course.extraction.lessons import lesson_of
from autograd_course.index import exercises_of
from autograd_course.notebook_files import Notebook, UnreadableError, read

# Hidden folders that tools create, which may contain files that look like answers.
_TOOLS = {
    ".cache", ".config", ".git", ".github", ".idea", ".ipynb_checkpoints", ".ipython", ".jupyter",
    ".local", ".trash", ".venv", ".virtual_documents", ".vscode",
}  # fmt: skip
_SHARED = "the folder {} next to it gives the same student: rename one, or merge the two"
NOTHING = "it contains no notebook and no script"
_NOT_THEIRS = re.compile(r"(^|/)(notebooks|solutions)/")  # our own files in a submitted checkout


class NoSubmissionsError(CourseError):
    """Raised when no submissions can be collected. The message is a single sentence."""


@dataclass(frozen=True)
class _Read:
    """A readable file and its rank.

    If a student handed in several files for a lesson, the grader uses the one with the highest
    rank.
    """

    submission: Submission
    rank: tuple[bool, int, int, bool, float]


def collect(root: Path) -> Iterator[Submission | Rejected]:
    """Yield all submissions, sorted by student.

    Also yield a rejection for each file that cannot be graded. Only one student's files are in
    memory at a time. If a student handed in several files for one lesson, yield the file with the
    most attempted exercises, and reject the others. To break a tie, prefer the file with more
    tagged cells, then a notebook, and then the latest file. Files in folders named ``notebooks`` or
    ``solutions`` rank last, because they may be copies of the course's own files. Raises
    NoSubmissionsError if ``root`` does not exist.
    """
    require(root)
    for student, paths in sorted(by_student(root).items()):
        yield from of_student(student, paths, root)


def require(root: Path) -> None:
    """Raise NoSubmissionsError if the folder or file does not exist."""
    if not root.exists():
        raise NoSubmissionsError(f"there is no folder {root}: name the one with the submissions.")


def of_student(student: str, paths: list[Path], root: Path) -> Iterator[Submission | Rejected]:
    """Yield one student's submissions and rejected files; see :func:`collect`."""
    whole = [path for path in paths if path.suffix.lower() == ZIP and students_in(path) > 1]
    yield from (_of_a_class(_label(path, root)) for path in whole)
    shared = _shared([path for path in paths if path.is_dir()])
    for path, other in shared.items():
        yield Rejected(student, _label(path, root), _SHARED.format(printable(other.name)))
    own = [path for path in paths if path not in whole and path not in shared]
    if own:
        left = Left()
        files = [file for path in own for file in _found(path, _label(path, root), left)]
        yield from _students(student, files)
        if not files:
            yield from (Rejected(student, _label(path, root), NOTHING) for path in own)


def _found(path: Path, label: str, left: Left) -> Iterator[Found]:
    """Yield the files at ``path``, each with the time that a course site has recorded, if any."""
    for file in found(path, label, left):
        time = recorded(path, file.source.removeprefix(f"{label}/"))
        yield replace(file, received=time or file.received)


Listing = Mapping[str, tuple[int, int, int]]


def listing(root: Path) -> Listing:
    """Map the path of each file in a folder, or of a single file, to its time, size and inode.

    A file that cannot contain answers, such as a log, may grow all the time, so map it to zeros.
    """
    names = [os.path.join(folder, name) for folder, _, files in os.walk(root) for name in files]
    found: dict[str, tuple[int, int, int]] = {}
    for name in names or [str(root)]:
        with suppress(OSError):  # the file has just been removed
            seen = os.stat(name, follow_symlinks=False)
            counts = is_interesting(os.path.basename(name)) or is_download(os.path.basename(name))
            told = seen.st_mtime_ns, seen.st_size, seen.st_ino
            found[name] = told if counts else (0, 0, 0)
    return found


def by_student(root: Path) -> dict[str, list[Path]]:
    """Return the top-level files and folders of each student."""
    owned: defaultdict[str, list[Path]] = defaultdict(list)
    for path in _tops(root):
        label = PurePosixPath(_label(path, root))
        by_path = student_of(label, root.stem, is_folder=path.is_dir())
        exported = exported_in(path.parent).get(path.name)
        student = exported.student(path.name) if exported else ""
        owned[printable(student or by_path)].append(path)
    return owned


def ignored(root: Path) -> list[str]:
    """Return the names of the files next to the submissions that no student seems to hand in."""
    if not root.is_dir():
        return []
    taken = set(_tops(root))
    return [
        printable(path.name)
        for path in _children(root)
        if path.is_file() and path not in taken and not is_skipped(path.name)
    ]


def _shared(folders: list[Path]) -> dict[Path, Path]:
    """Map each of a student's folders to another one that may belong to another person.

    A course site may create several folders for a student. A student may also have a folder for
    each lesson, or folders for lessons may each contain a folder of the student.
    """
    people = {path: site["student"] if (site := by_site(path.name)) else path.name
              for path in folders}  # fmt: skip
    return {
        path: other
        for path in folders
        for other in folders
        if path.parent == other.parent
        and people[path] != people[other]
        and len({"", lesson_in(path.name), lesson_in(other.name)}) < 3
    }


def _of_a_class(source: str) -> Rejected:
    """Reject a zip file that a course site created for a whole class."""
    return Rejected(source, source, "it holds the work of a class: unpack it, and grade the folder")


def _tops(root: Path) -> Iterator[Path]:
    """Yield each student's file or folder. Descend into folders with the work of many students.

    Include a file that has no answers if a course site named it, because a student handed it in.
    """
    if not root.is_dir():
        if is_interesting(root.name):
            yield root
        return
    for path in _children(root):
        is_folder = path.is_dir() and not path.is_symlink()
        if is_skipped(path.name) and not (is_folder and _is_hidden_student(path)):
            continue
        if is_folder and os.path.isfile(path / REPORTS_MARK):
            continue  # the reports of an earlier run
        if is_folder and is_of_many(path.name) and os.access(path, os.R_OK | os.X_OK):
            yield from _tops(path)
        elif is_folder or path.is_symlink() or is_interesting(path.name) or is_download(path.name):
            yield path


def _is_hidden_student(folder: Path) -> bool:
    """Return whether a hidden folder may contain answers and does not belong to a tool."""
    if not folder.name.startswith(".") or folder.name.lower() in _TOOLS:
        return False
    return any(is_interesting(path.name) for path in _children(folder))


def _children(folder: Path) -> list[Path]:
    """Return the sorted contents of a folder, or nothing if it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _label(path: Path, root: Path) -> str:
    return printable(path.relative_to(root).as_posix() if path != root else path.name)


def _students(student: str, files: list[Found]) -> Iterator[Submission | Rejected]:
    by_lesson: defaultdict[str, list[_Read]] = defaultdict(list)
    for file in files:
        outcome = _read(student, file)
        if isinstance(outcome, Rejected):
            yield outcome
        else:
            by_lesson[outcome.submission.lesson].append(outcome)
    for lesson in sorted(by_lesson):
        *others, best = sorted(by_lesson[lesson], key=lambda each: each.rank)
        yield best.submission
        for other in others:
            instead = f"{best.submission.source} is graded for lesson {lesson[:2]} instead"
            yield Rejected(student, other.submission.source, instead, is_superseded=True)


def _read(student: str, file: Found) -> _Read | Rejected:
    if file.problem:
        return Rejected(student, file.source, file.problem)
    try:
        notebook = read(file.data)
        lesson = lesson_of(notebook, file.source)
        if not lesson:
            nothing = "it answers no exercise of the course"
            return Rejected(student, file.source, next(iter(notebook.problems), nothing))
        return _ranked(student, file, notebook, lesson)
    except UnreadableError as why:
        return Rejected(student, file.source, str(why))
    except Exception as error:
        return unread(student, file.source, error)


def _ranked(student: str, file: Found, notebook: Notebook, lesson: str) -> _Read:
    digest = hashlib.sha256(file.data).hexdigest()
    time = handed_in(file.source, file.received)
    about = (lesson, file.source, notebook, digest, notebook.problems, time)
    submission = Submission(student, *about)
    begun = attempted(notebook, exercises_of(lesson))
    tagged = sum(bool(cell.grade_id) for cell in notebook.cells)
    theirs = _NOT_THEIRS.search(file.source) is None
    is_notebook = file.source.lower().endswith(".ipynb")
    return _Read(submission, (theirs, begun, tagged, is_notebook, file.modified))
