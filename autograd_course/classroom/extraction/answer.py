"""One exercise's answer as code, ready to be run somewhere safe."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass


class NotPython(str):
    """The problem that a cell is not Python; its result says so, too."""


@dataclass(frozen=True)
class Answer:
    """What a student answered to one exercise.

    ``name`` is what to take from the namespace once ``preamble`` and then ``source`` have run;
    ``source`` is empty if there is no answer. ``problems`` are sentences about how it was handed
    in, for the student to read.
    """

    exercise: str
    student: str
    name: str
    source: str
    preamble: str = ""
    problems: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """Whether there is anything to grade."""
        return bool(self.source.strip())

    @property
    def cells(self) -> list[str]:
        """The code to run, in order."""
        return [cell for cell in (self.preamble, self.source) if cell]

    @property
    def hash(self) -> str:
        """SHA-256 of all that a verdict can depend on: not the student, not the problems."""
        graded = [self.exercise, self.name, self.preamble, self.source]
        return hashlib.sha256(json.dumps(graded).encode()).hexdigest()
