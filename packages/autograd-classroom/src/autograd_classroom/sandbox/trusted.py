"""Run trusted code in a plain process, without a sandbox."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autograd_classroom.folders import OURS
from autograd_classroom.sandbox import mounts
from autograd_classroom.sandbox.backend import FORK_SERVER, Start


@dataclass(frozen=True)
class Trusted:
    """A process with limited time and memory, but with access to files, network and processes."""

    name: str = "trust"
    separates: bool = False

    @property
    def gap(self) -> str:
        """Return a warning that nearly all protection is missing. See :class:`Backend`."""
        return (
            "Without a sandbox (--trust), the graded code can read, change and send whatever you "
            "can."
        )

    def start(self, meeting: Path) -> Start:
        """Return the command that starts the process. See :class:`Backend`."""
        environment = dict(mounts.environment())
        environment["PYTHONPATH"] = ":".join(
            [*(str(package.parent) for package in OURS), *map(str, _sites())]
        )
        command = (str(mounts.interpreter()), "-B", "-s", "-m", FORK_SERVER, str(meeting), "plain")
        return Start(command, environment)


def _sites() -> tuple[Path, ...]:
    return tuple(s.source for s in mounts.shown() if s.target.name == "site-packages")
