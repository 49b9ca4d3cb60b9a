"""An answer to one exercise, as code that a sandbox can run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Answer:
    """A student's answer to one exercise.

    Running ``preamble`` and then ``source`` defines the answer under ``name``. ``source`` is empty
    if the student gave no answer. ``problems`` contains sentences that tell the student what is
    wrong with the form of the submission.
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
        """The code cells to run, in order."""
        return [cell for cell in (self.preamble, self.source) if cell]

    def with_cells(self, cells: Sequence[str]) -> Answer:
        """Return this answer with other code in its cells."""
        code = iter(cells)
        preamble = next(code) if self.preamble else ""
        return replace(self, preamble=preamble, source=next(code) if self.source else "")

    @property
    def hash(self) -> str:
        """The SHA-256 hash of everything that affects a verdict.

        The hash does not depend on the student or on the problems.
        """
        graded = [self.exercise, self.name, self.preamble, self.source]
        return hashlib.sha256(json.dumps(graded).encode()).hexdigest()
