"""The interface that every kind of sandbox has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autograd_course.errors import CourseError

FORK_SERVER = "autograd_classroom.sandbox.fork_server"


class NoSandboxError(CourseError, RuntimeError):
    """This machine cannot run untrusted code safely. The message says what to install."""


class SandboxError(CourseError, RuntimeError):
    """The sandbox itself failed. This is not the fault of a submission."""


@dataclass(frozen=True)
class Start:
    """How to start a template process: the command and its environment.

    Sometimes, ending the process of ``command`` does not end the template. ``ending`` is then a
    command that does.
    """

    command: tuple[str, ...]
    environment: dict[str, str] | None = None
    ending: tuple[str, ...] = ()


class Backend(Protocol):
    """A way to run the template process in isolation from the rest of the machine.

    If it does not separate submissions within a template, each submission gets its own template.
    """

    @property
    def name(self) -> str:
        """The sandbox's name in reports."""

    @property
    def separates(self) -> bool:
        """Whether submissions that run one after another cannot affect each other."""

    @property
    def gap(self) -> str:
        """A sentence that tells the instructor about missing protection, or an empty string."""

    def start(self, meeting: Path) -> Start:
        """Return how to start the template so that it connects to the Unix socket ``meeting``."""
