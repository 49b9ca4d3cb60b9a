"""What goes into a gradebook and comes out of it."""

from __future__ import annotations

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
class Score:
    """One verdict on one answer, with all that reproduces it: ``hash`` names code, ``seed`` inputs.

    ``status`` is empty where nothing was graded yet. ``problems`` are about the handing in,
    ``remarks`` for the instructor alone: what in the code is something to look at. ``damage`` is
    the one of them that says which parts of the record in the gradebook are damaged.
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


@dataclass(frozen=True)
class Tally:
    """How one exercise went: answers by status, and the rule that most wrong ones break.

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
