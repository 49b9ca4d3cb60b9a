"""What every kind of sandbox promises."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ZYGOTE = "autograd_course.classroom.zygote"


class NoSandboxError(RuntimeError):
    """There is nothing here to run untrusted code in; the message says what to install."""


@dataclass(frozen=True)
class Start:
    """How to start a template process: the command, and the environment it is started in."""

    command: tuple[str, ...]
    environment: dict[str, str] | None = None


class Backend(Protocol):
    """A way to run the template process apart from the rest of the machine.

    ``separates``: submissions after one another in the same template cannot meet. Where that is
    false, each submission needs a template of its own.
    """

    name: str
    separates: bool

    def start(self, meeting: Path) -> Start:
        """Return how to start the template; it connects to the Unix socket ``meeting``."""
