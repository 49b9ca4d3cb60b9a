"""The interface that every kind of sandbox implements."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autograd_course.errors import CourseError

FORK_SERVER = "autograd_classroom.sandbox.fork_server"


class NoSandboxError(CourseError, RuntimeError):
    """Raised when this machine cannot run untrusted code safely.

    The message explains what to install.
    """


class SandboxError(CourseError, RuntimeError):
    """Raised when the sandbox itself fails. The submission did not cause this error."""


@dataclass(frozen=True)
class Start:
    """The command that starts a template process, and the environment variables for this command.

    ``ending`` is a command that ends the template. It is empty if killing the process that
    ``command`` started is enough.
    """

    command: tuple[str, ...]
    environment: dict[str, str] | None = None
    ending: tuple[str, ...] = ()


class Backend(Protocol):
    """A way to run the template process in isolation from the rest of the machine.

    If ``separates`` is false, each submission gets its own template process.
    """

    @property
    def name(self) -> str:
        """The name of the sandbox in reports."""

    @property
    def separates(self) -> bool:
        """Whether submissions in the same template are isolated from each other."""

    @property
    def gap(self) -> str:
        """A sentence that warns the instructor about missing protection, or an empty string."""

    def start(self, meeting: Path) -> Start:
        """Return the command that starts a template and connects it to the socket ``meeting``."""
