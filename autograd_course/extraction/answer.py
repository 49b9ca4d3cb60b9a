"""The answer to one exercise as code that a sandbox can run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass


class NotPython(str):
    """The problem "this cell is not Python". It also affects the result of the cell."""


@dataclass(frozen=True)
class Answer:
    """A student's answer to one exercise.

    ``name`` is the name of the answer in the namespace after ``preamble`` and then ``source`` have
    run. ``source`` is empty if the student gave no answer. ``problems`` are sentences for the
    student about the form of the submission.
    """

    exercise: str
    student: str
    name: str
    source: str
    preamble: str = ""
    problems: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """Whether the student gave an answer."""
        return bool(self.source.strip())

    @property
    def cells(self) -> list[str]:
        """The code to run, in order."""
        return [cell for cell in (self.preamble, self.source) if cell]

    @property
    def hash(self) -> str:
        """The SHA-256 of everything that affects a verdict. It excludes the student and the
        problems.
        """
        graded = [self.exercise, self.name, self.preamble, self.source]
        return hashlib.sha256(json.dumps(graded).encode()).hexdigest()
