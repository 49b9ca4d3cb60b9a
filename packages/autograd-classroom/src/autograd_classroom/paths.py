"""The folders for a class's submissions and for its results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autograd_course.errors import CourseError


class PlaceError(CourseError):
    """The requested folder cannot be used for results; the message is one sentence."""


@dataclass(frozen=True)
class Places:
    """The folder of the submissions, and the folders of the results. Submissions contain no
    results.
    """

    submissions: Path
    gradebook: Path
    reports: Path

    @staticmethod
    def of(submissions: Path, gradebook: Path | None, reports: Path | None) -> Places:
        """Return the requested folders. Missing ones are next to the submissions. Raises
        PlaceError.
        """
        root = submissions.resolve()
        beside = root.parent / f"{root.stem if root.is_file() else root.name}-grades"
        places = Places(submissions, gradebook or beside / "gradebook.sqlite", reports or beside)
        for path in (places.gradebook, places.reports):
            if path.resolve().is_relative_to(root):
                raise PlaceError(
                    f"{path} lies among the submissions, where nothing is written: name a place "
                    "outside with --gradebook and --reports."
                )
        return places

    def make_room(self) -> None:
        """Create the gradebook's folder. Raises PlaceError."""
        try:
            self.gradebook.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"{self.gradebook} cannot be written ({error.strerror})."
            raise PlaceError(message) from None
