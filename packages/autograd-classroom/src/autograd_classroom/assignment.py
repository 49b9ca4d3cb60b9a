"""The settings file and the roster, which an instructor can pass to ``grade`` and ``report``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autograd_classroom.console import say
from autograd_classroom.gradebook import Gradebook
from autograd_classroom.gradebook.roster import Roster
from autograd_classroom.gradebook.roster import from_file as read_roster
from autograd_classroom.gradebook.settings import Settings, from_file


@dataclass(frozen=True)
class Assignment:
    """The contents of the settings file and of the roster, or ``None`` without such a file."""

    settings: Settings | None = None
    roster: Roster | None = None

    @staticmethod
    def read(settings: Path | None, roster: Path | None) -> Assignment:
        """Read each file whose path is given. Raises GradebookError."""
        return Assignment(
            from_file(settings) if settings else None, read_roster(roster) if roster else None
        )

    def keep(self, book: Gradebook) -> None:
        """Store the settings and the roster in a gradebook, unless they are ``None``.

        If the settings replace others, print which tables differ.
        """
        if self.settings is not None:
            if differs := self.settings.instead_of(book.settings()):
                say(differs)
            book.set(self.settings)
        if self.roster is not None:
            book.enroll(self.roster)


NOTHING = Assignment()
