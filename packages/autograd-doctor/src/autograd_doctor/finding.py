"""Findings, which are the results of rules, and clues that explain them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from autograd_doctor.repair import Repair

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True)
class Clue:
    """A line of code that explains why a gradient is wrong.

    The line contains a step of ``forward`` that ``backward`` differentiates incorrectly, or a wrong
    expression in ``backward``.

    Attributes:
        method: ``"forward"`` or ``"backward"``, the method that contains the line.
        file: The path of the file, or Python's name for a notebook cell.
        line: The line number of the step or expression.
        sentence: A sentence that names the line and explains what is wrong there. If several
            gradients are wrong for different reasons, there are several sentences, and ``line``
            belongs to the first.
        up_to_a_factor: Whether the step explains the gradient only up to a constant factor.
    """

    method: Literal["forward", "backward"]
    file: str
    line: int
    sentence: str
    up_to_a_factor: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the clue as a JSON-compatible dictionary."""
        return asdict(self)


def place_of(file: str) -> str:
    """Return a phrase that names a file. For a notebook cell, this is "the cell"."""
    path = Path(file)
    in_notebook = not path.suffix or "ipykernel" in file or file.startswith("<")
    return "the cell" if in_notebook else path.name


@dataclass(frozen=True)
class Finding:
    """A mistake in a Function, or a note about the Function, with evidence.

    ``rule`` is the name of a rule (see ``autograd-doctor explain RULE``). ``message`` describes the
    problem. ``evidence`` holds an example (input, index, expected, actual, line of code …) as plain
    data. ``hint`` explains what to change or where to look. ``lesson`` is the name of the lesson
    about this problem. ``search`` finds the :attr:`repair`. Its argument maps descriptions to the
    arguments of other calls for which the repair must be correct. By default, these calls are
    variations of the example. ``trace`` finds the :attr:`clue`.
    """

    rule: str
    severity: Severity
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    hint: str = ""
    lesson: str = ""
    search: Callable[..., Repair | None] | None = field(default=None, repr=False, compare=False)
    trace: Callable[[], Clue | None] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def repair(self) -> Repair | None:
        """The change to the Function's code that removes this error, if the search finds one.

        The first access starts the search, which takes at most a second. The search tries small
        edits of ``backward`` and ``forward``, and verifies an edit on other inputs and shapes. It
        does not change the class or its file.
        """
        return self.search() if self.search else None

    @cached_property
    def clue(self) -> Clue | None:
        """The step of ``forward`` whose derivative is wrong, or the wrong expression in
        ``backward``, if one of them explains the gradients.
        """
        return self.trace() if self.trace else None

    def __getstate__(self) -> dict[str, Any]:
        # the callables stay in this process
        return {**self.__dict__, "search": None, "trace": None}

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as a JSON-compatible dictionary."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "message": self.message,
            "evidence": dict(self.evidence),
            "hint": self.hint,
            "lesson": self.lesson,
            "clue": self.clue.to_dict() if self.clue else None,
            "repair": self.repair.to_dict() if self.repair else None,
        }


def without_search(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings without the callables that search for their repairs and clues.

    The result keeps repairs and clues that are already known.
    """
    return tuple(map(copy, findings))
