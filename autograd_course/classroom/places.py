"""The folders that a class is read from and written to. Results are never among submissions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autograd_course.errors import CourseError


class PlaceError(CourseError):
    """The results may not be written to the requested folder; the message is one sentence."""


@dataclass(frozen=True)
class Places:
    """The folder of the submissions, and the folders of the results."""

    submissions: Path
    gradebook: Path
    reports: Path

    @staticmethod
    def of(submissions: Path, gradebook: Path | None, reports: Path | None) -> Places:
        """Return the requested folder, or else one next to the submissions. Raises PlaceError."""
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
        """Make the folder of the gradebook. Raises PlaceError."""
        try:
            self.gradebook.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"{self.gradebook} cannot be written ({error.strerror})."
            raise PlaceError(message) from None
