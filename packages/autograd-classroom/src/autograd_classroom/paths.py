"""The paths of a class's submissions, gradebook and reports."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from autograd_course.errors import CourseError

REPORTS_MARK = ".autograd-course-reports"  # every report folder contains this file


class PlaceError(CourseError):
    """Raised when the results cannot be written to a path. The message is a single sentence."""


@dataclass(frozen=True)
class Places:
    """The paths of the submissions, the gradebook and the reports.

    The gradebook and the reports are never inside the submissions folder.
    """

    submissions: Path
    gradebook: Path
    reports: Path

    @staticmethod
    def of(submissions: Path, gradebook: Path | None, reports: Path | None) -> Places:
        """Return the given paths, but replace ``None`` with a default path next to the submissions.

        Raises PlaceError if the gradebook or the reports would be inside the submissions folder, or
        if the reports folder is a file.
        """
        root = submissions.resolve()
        beside = root.parent / f"{root.stem if root.is_file() else root.name}-grades"
        places = Places(submissions, gradebook or beside / "gradebook.sqlite", reports or beside)
        refuse_file(places.reports)
        for path in (places.gradebook, places.reports):
            if path.resolve().is_relative_to(root):
                raise _among_submissions(path)
        return places

    def make_room(self) -> None:
        """Create the gradebook's folder. Raises PlaceError if the folder cannot be created."""
        try:
            self.gradebook.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"{self.gradebook} cannot be written ({error.strerror})."
            raise PlaceError(message) from None


def refuse_file(reports: Path) -> None:
    """Raise PlaceError if ``reports`` is a file."""
    if os.path.isfile(reports):  # Path.is_file raises an error if a path is too long
        raise PlaceError(f"{reports} is a file: name a folder with --reports.")


def refuse_among_submissions(reports: Path, gradebook: Path, sources: Iterable[str]) -> None:
    """Raise PlaceError if ``reports`` is a file or inside a folder that contains the ``sources``.

    ``sources`` are the paths of the gradebook's files, relative to the submissions folder. The
    gradebook is never inside this folder.
    """
    refuse_file(reports)
    files = {part for source in sources for part in (Path(source), *Path(source).parents)}
    folder, outside = reports.resolve(), gradebook.resolve().parents
    for place in (folder, *folder.parents):
        if place not in outside and any(os.path.isfile(place / file) for file in files):
            raise _among_submissions(reports)


def _among_submissions(path: Path) -> PlaceError:
    return PlaceError(
        f"{path} lies among the submissions, where nothing is written: name a place outside with "
        "--gradebook and --reports."
    )
