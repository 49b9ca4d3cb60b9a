"""What every kind of sandbox promises."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from autograd_course.errors import CourseError

ZYGOTE = "autograd_course.classroom.zygote"


class NoSandboxError(CourseError, RuntimeError):
    """There is nothing here to run untrusted code in; the message says what to install."""


class SandboxError(CourseError, RuntimeError):
    """The sandbox itself failed: no fault of a submission."""


@dataclass(frozen=True)
class Start:
    """How to start a template process: the command, and the environment it is started in.

    ``ending`` is a command that ends it, where ending the first command's process does not.
    """

    command: tuple[str, ...]
    environment: dict[str, str] | None = None
    ending: tuple[str, ...] = ()


class Backend(Protocol):
    """A way to run the template process apart from the rest of the machine.

    Where it does not separate submissions within a template, each gets a template of its own.
    """

    @property
    def name(self) -> str:
        """What it is called, in reports."""

    @property
    def separates(self) -> bool:
        """Whether submissions that run one after the other cannot meet."""

    @property
    def gap(self) -> str:
        """A sentence for the instructor on what does not hold in it here; empty if all does."""

    def start(self, meeting: Path) -> Start:
        """Return how to start the template; it connects to the Unix socket ``meeting``."""
