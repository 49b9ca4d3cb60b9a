"""The records that a gradebook stores and returns."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from autograd_course.grader.verdict import Status
from autograd_course.notebook_files import clean


@dataclass(frozen=True)
class Run:
    """A grading run: the secret seed for the judge's inputs, and the version of the grader."""

    id: int
    seed: str
    grader: str


@dataclass(frozen=True)
class Workload:
    """The number of answers that a run grades and the number that keep their verdicts.

    ``again`` is the number of graded answers that have a verdict from another version of the
    grader.
    """

    graded: int
    again: int
    kept: int


def total_points(scores: Iterable[Score]) -> float:
    """Return the sum of the points without the rounding errors of binary fractions."""
    return round(sum(score.points for score in scores), 6)


@dataclass(frozen=True)
class Problem:
    """A problem with a file, such as the reason why it was not graded."""

    student: str
    source: str
    message: str


@dataclass(frozen=True)
class Settlement:
    """Points that an instructor set by hand, with a comment.

    ``number`` is the row number in the table. ``changed`` is true if the student has since handed
    in different code.
    """

    points: float
    comment: str
    by: str
    at: str
    number: int = 0
    changed: bool = False


@dataclass(frozen=True)
class Score:
    """The verdict on one answer. You can reproduce it from the code's ``hash`` and the ``seed``.

    ``status`` is empty if the answer has not been graded. ``problems`` describe what is wrong with
    the form of the submission. ``remarks`` point out suspicious parts of the code. Only the
    instructor sees them. ``damage`` names the damaged parts of the record in the gradebook.
    ``points`` are the final points. If an instructor set the points by hand, they come from
    ``settlement``. ``late`` is the number of late days. ``late_free`` of them are free, and
    ``late_cost`` is the share of the points that the student loses for the others.
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
    late_free: int = 0
    late_cost: float = 0.0

    @property
    def outcome(self) -> str:
        """The final status. It is ``settled`` if an instructor set the points by hand."""
        return "settled" if self.settlement else self.status or "not graded"

    @property
    def is_counted(self) -> bool:
        """Whether the grader or an instructor has determined the points."""
        return self.settlement is not None or self.status not in ("", "grader failed")

    @property
    def is_passed(self) -> bool:
        """Whether the answer passed.

        An answer with points set by hand passes only with full points.
        """
        settled = self.settlement
        return settled.points >= self.possible if settled else self.status == "passed"

    @property
    def stamp(self) -> str:
        """Return a short hash of the code, the verdict and the points set by hand."""
        seen = (self.hash, self.status, self.rule, self.settlement)
        return hashlib.sha256(repr(seen).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Event:
    """An event in an answer's history: a verdict on one version of the code, or points set by hand.

    ``points`` is ``None`` if an instructor removed points set by hand. ``by`` is empty for a
    verdict.
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
    """The results for one exercise: answer counts by status, and the most frequently broken rule.

    Answers with points set by hand count as ``"settled"``, regardless of their status.
    ``possible`` is the number of points that the exercise is worth.
    """

    exercise: str
    title: str
    counts: Mapping[str, int]
    rule: str = ""
    rule_count: int = 0
    rule_ties: int = 0  # other rules that as many answers break
    possible: float = 0.0


def as_json(value: Any) -> str:
    """Convert a value to JSON that every parser accepts, without NaN or lone surrogates.

    Convert objects of other types to strings.
    """
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
