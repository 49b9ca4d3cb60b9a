"""The settings file and the roster, which an instructor can pass to ``grade`` and ``report``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autograd_classroom.console import say
from autograd_classroom.gradebook import Gradebook
from autograd_classroom.gradebook.roster import Roster, matched
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

        If the settings replace others, print which tables differ. Also print which tables have no
        effect. Raises GradebookError.
        """
        if self == NOTHING:
            return
        settings = book.settings() if self.settings is None else self.settings
        roster = book.roster() if self.roster is None else self.roster
        settings.refuse_repeated(matched(settings.extensions, roster))
        if self.settings is not None:
            for line in filter(
                None, (settings.instead_of(book.settings()), settings.without_effect())
            ):
                say(line)
            book.set(self.settings)
        if self.roster is not None:
            book.enroll(self.roster)


NOTHING = Assignment()
