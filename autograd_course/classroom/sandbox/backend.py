"""The interface of every kind of sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autograd_course.errors import CourseError

ZYGOTE = "autograd_course.classroom.zygote"


class NoSandboxError(CourseError, RuntimeError):
    """This machine cannot run untrusted code safely; the message says what to install."""


class SandboxError(CourseError, RuntimeError):
    """The sandbox itself failed, which is not the fault of a submission."""


@dataclass(frozen=True)
class Start:
    """How to start a template process: the command and its environment.

    ``ending`` is a command that ends the template if ending the first command's process does not.
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
        """Its name in reports."""

    @property
    def separates(self) -> bool:
        """Whether submissions that run one after the other cannot affect each other."""

    @property
    def gap(self) -> str:
        """A sentence for the instructor about missing protection, or an empty text."""

    def start(self, meeting: Path) -> Start:
        """Return how to start the template, which connects to the Unix socket ``meeting``."""
