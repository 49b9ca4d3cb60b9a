"""The assignment files that an instructor passes to a command in addition to the submissions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autograd_classroom.gradebook import Gradebook
from autograd_classroom.gradebook.roster import Roster
from autograd_classroom.gradebook.roster import from_file as read_roster
from autograd_classroom.gradebook.settings import Settings, from_file


@dataclass(frozen=True)
class Assignment:
    """The contents of the assignment files. ``None`` leaves the gradebook unchanged."""

    settings: Settings | None = None
    roster: Roster | None = None

    @staticmethod
    def read(settings: Path | None, roster: Path | None) -> Assignment:
        """Read the files that were given. Raises GradebookError."""
        return Assignment(
            from_file(settings) if settings else None, read_roster(roster) if roster else None
        )

    def keep(self, book: Gradebook) -> None:
        """Store the contents in a gradebook."""
        if self.settings is not None:
            book.set(self.settings)
        if self.roster is not None:
            book.enroll(self.roster)


NOTHING = Assignment()
