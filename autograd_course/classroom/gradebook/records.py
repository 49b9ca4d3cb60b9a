"""What goes into a gradebook and comes out of it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autograd_course.classroom.notebooks.cells import clean
from autograd_course.grader.verdict import Status


@dataclass(frozen=True)
class Run:
    """One grading: the secret seed that the judge draws its inputs from, and which grader."""

    id: int
    seed: str
    grader: str


@dataclass(frozen=True)
class Problem:
    """A file that is not graded, and why."""

    student: str
    source: str
    message: str


@dataclass(frozen=True)
class Settlement:
    """Points that a person gave by hand, and why; ``number`` is that of its row.

    ``changed`` says that the student has handed in other code since.
    """

    points: float
    comment: str
    by: str
    at: str
    number: int = 0
    changed: bool = False


@dataclass(frozen=True)
class Score:
    """One verdict on one answer, with all that reproduces it: ``hash`` names code, ``seed`` inputs.

    ``status`` is empty where nothing was graded yet. ``problems`` are about the handing in,
    ``remarks`` for the instructor alone: what in the code is something to look at. ``damage`` is
    the one of them that says which parts of the record in the gradebook are damaged. ``points`` are
    those that count: of the ``settlement``, if there is one. ``late`` is the number of late days,
    ``late_cost`` the share of the points that they cost.
    """

    student: str
    exercise: str
    status: Status | str
    points: float
    rule: str = ""
    message: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    hash: str = ""
    seed: str = ""
    lesson: str = ""
    title: str = ""
    possible: float = 0.0
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    damage: str = ""
    settlement: Settlement | None = None
    late: int = 0
    late_cost: float = 0.0

    @property
    def outcome(self) -> str:
        """What an answer is counted as: its status, unless a person has settled it."""
        return "settled" if self.settlement else self.status or "not graded"

    @property
    def is_counted(self) -> bool:
        """Whether its points are known: neither open nor a failure of the grader."""
        return self.settlement is not None or self.status not in ("", "grader failed")

    @property
    def is_passed(self) -> bool:
        """Whether the answer passed; a settled one has with all its points."""
        settled = self.settlement
        return settled.points >= self.possible if settled else self.status == "passed"

    @property
    def stamp(self) -> str:
        """Return a short text that changes with the code, the verdict and the settlement."""
        seen = (self.hash, self.status, self.rule, self.settlement)
        return hashlib.sha256(repr(seen).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Event:
    """What happened to an answer: a verdict on one code, or a settlement.

    ``points`` are ``None`` where a settlement was withdrawn. ``by`` is empty for a verdict.
    """

    at: str
    hash: str
    points: float | None
    status: str = ""
    rule: str = ""
    by: str = ""
    comment: str = ""


@dataclass(frozen=True)
class Tally:
    """How one exercise went: answers by status, and the rule that most wrong ones break.

    Settled answers are counted as ``"settled"``, whatever their status is.

    ``possible`` are the points that it is worth.
    """

    exercise: str
    title: str
    counts: Mapping[str, int]
    rule: str = ""
    rule_count: int = 0
    possible: float = 0.0


def as_json(value: Any) -> str:
    """Return JSON that every reader takes: no NaN, no lone surrogates; odd objects as text."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {clean(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return clean(value if isinstance(value, str) else repr(value))
