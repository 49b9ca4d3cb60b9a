"""Write the reports to a folder, but never overwrite files that are not reports."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from autograd_classroom.gradebook import Gradebook
from autograd_classroom.paths import REPORTS_MARK
from autograd_classroom.reports.document import json_pieces
from autograd_classroom.reports.gradescope import gradescope_results
from autograd_classroom.reports.junit import junit_pieces
from autograd_classroom.reports.pages import class_page, feedback, feedback_name
from autograd_classroom.reports.sites import FeedbackZip, canvas_pieces, moodle_pieces
from autograd_classroom.reports.table import csv_pieces, grade_table_pieces
from autograd_classroom.reports.wording import names
from autograd_course.errors import CourseError

Files = Iterator[tuple[str, Iterable[str | bytes]]]  # each file's path in the folder, and contents


def _csv(book: Gradebook) -> Files:
    yield "grades.csv", grade_table_pieces(book)
    yield "results.csv", csv_pieces(book)


def _json(book: Gradebook) -> Files:
    yield "results.json", json_pieces(book)


def _junit(book: Gradebook) -> Files:
    yield "junit.xml", junit_pieces(book)


def _gradescope(book: Gradebook) -> Files:
    for student in book.students():
        name = Path(feedback_name(student)).stem
        results = gradescope_results(book, student)
        yield f"gradescope/{name}.json", [json.dumps(results, ensure_ascii=False, indent=1)]


def _html(book: Gradebook) -> Files:
    yield "class.html", class_page(book)
    known, tallies = names(book), book.tallies()
    archive = FeedbackZip(book)
    for student in book.students():
        page = "".join(feedback(book, student, known[student], tallies))
        archive.add(student, page)
        yield f"feedback/{feedback_name(student)}", [page]
    yield "feedback.zip", [archive.contents()]


def _canvas(book: Gradebook) -> Files:
    yield "canvas.csv", canvas_pieces(book)


def _moodle(book: Gradebook) -> Files:
    yield "moodle.csv", moodle_pieces(book)


FORMATS: Mapping[str, Callable[[Gradebook], Files]] = {
    "html": _html,
    "csv": _csv,
    "json": _json,
    "junit": _junit,
    "gradescope": _gradescope,
    "canvas": _canvas,
    "moodle": _moodle,
}
_OURS = (
    "grades.csv", "results.csv", "results.json", "junit.xml", "class.html", "feedback",
    "gradescope", "canvas.csv", "moodle.csv", "feedback.zip",
)  # fmt: skip


class ReportsError(CourseError):
    """Raised when the reports cannot be written to the folder. The message gives the reason."""


def prepare(folder: Path) -> None:
    """Create the folder for the reports if it does not exist.

    Raises ReportsError if a report would replace a file that this module did not write.
    """
    theirs = [name for name in _OURS if os.path.lexists(folder / name)]
    if theirs and not (folder / REPORTS_MARK).is_file():
        raise ReportsError(
            f"{folder} has a {theirs[0]} that was not written here: name another folder "
            "with --reports."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / REPORTS_MARK).touch()
    except OSError as error:
        raise ReportsError(f"no reports can be written to {folder} ({error.strerror}).") from None


def write(book: Gradebook, folder: Path, formats: Iterable[str] = tuple(FORMATS)) -> None:
    """Write the reports in the given formats. Write each file completely or not at all.

    Raises ReportsError if a file cannot be written.
    """
    prepare(folder)
    for name in formats:
        made = {path for path, text in FORMATS[name](book) if _written(folder / path, text)}
        _clear(folder, {path.partition("/")[0] for path in made if "/" in path}, made)


def _written(path: Path, pieces: Iterable[str | bytes]) -> bool:
    unfinished = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(exist_ok=True)
        with unfinished.open("wb") as file:
            file.writelines(p if isinstance(p, bytes) else p.encode() for p in pieces)
        unfinished.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise ReportsError(
            f"{path} cannot be written ({error.strerror}). The gradebook keeps all results: run "
            "the command again once the file can be written."
        ) from None
    return True


def _clear(folder: Path, below: set[str], made: set[str]) -> None:
    """Delete the reports about students who are no longer in the gradebook."""
    for name in below:
        for path in (folder / name).iterdir():
            if f"{name}/{path.name}" not in made and path.suffix in (".html", ".json"):
                path.unlink(missing_ok=True)
