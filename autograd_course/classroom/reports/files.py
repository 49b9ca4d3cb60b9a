"""The reports as files, in a folder that is ours: no file of anybody else's is replaced."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from autograd_course.classroom.gradebook import Gradebook
from autograd_course.classroom.reports.document import as_json_document
from autograd_course.classroom.reports.junit import as_junit
from autograd_course.classroom.reports.table import as_csv, as_grade_table

REPORTS: Mapping[str, Callable[[Gradebook], str]] = {
    "grades.csv": as_grade_table,
    "results.csv": as_csv,
    "results.json": as_json_document,
    "junit.xml": as_junit,
}
_MARK = ".autograd-course-reports"  # lies in every folder that was made here


class ReportsError(Exception):
    """The reports cannot be written there; the message is one sentence with the repair."""


def prepare(folder: Path) -> None:
    """Make the folder, if need be. Raises ReportsError where it holds somebody else's files."""
    theirs = [name for name in REPORTS if os.path.lexists(folder / name)]
    if theirs and not (folder / _MARK).is_file():
        raise ReportsError(
            f"{folder} has a {theirs[0]} that was not written here: name another folder "
            "with --reports."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _MARK).touch()
    except OSError as error:
        raise ReportsError(f"no reports can be written to {folder} ({error.strerror}).") from None


def write(book: Gradebook, folder: Path) -> None:
    """Write all reports; each is there as a whole or not at all. Raises ReportsError."""
    prepare(folder)
    for name, made in REPORTS.items():
        unfinished = folder / f".{name}.new"
        try:
            unfinished.write_text(made(book), encoding="utf-8", newline="")
            unfinished.replace(folder / name)
        except OSError as error:
            raise ReportsError(f"{folder / name} cannot be written ({error.strerror}).") from None
