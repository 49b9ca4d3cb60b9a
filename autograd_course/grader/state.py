"""What is remembered of a learner's work, as immutable data and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

SCHEMA = 1
_RANK = {"": 0, "not attempted": 1, "wrong": 2, "passed": 3}


class UnreadableStateError(ValueError):
    """The stored data is not this version's; the message completes "The progress file …"."""


@dataclass(frozen=True)
class Record:
    """One exercise: the best status so far, the latest one, and how it was come by.

    ``attempts`` counts the answers that were judged, ``hints`` the hints shown, ``rules`` how often
    each rule was missed.
    """

    status: str = ""
    latest: str = ""
    attempts: int = 0
    hints: int = 0
    rules: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """All exercises that were touched, by id."""

    exercises: Mapping[str, Record] = field(default_factory=dict)

    def __getitem__(self, exercise_id: str) -> Record:
        return self.exercises.get(exercise_id, Record())

    def graded(self, exercise_id: str, status: str, rule: str) -> State:
        """Return the state after one more grading; what was once passed stays passed."""
        old = self[exercise_id]
        rules = {**old.rules, rule: old.rules.get(rule, 0) + 1} if rule else old.rules
        return self._with(
            exercise_id,
            replace(
                old,
                status=max(old.status, status, key=_RANK.__getitem__),
                latest=status,
                attempts=old.attempts + (status != "not attempted"),
                rules=rules,
            ),
        )

    def hinted(self, exercise_id: str, most: int) -> State:
        """Return the state after one more hint, of ``most``."""
        old = self[exercise_id]
        return self._with(exercise_id, replace(old, hints=min(old.hints + 1, most)))

    def without(self, exercise_id: str) -> State:
        """Return the state in which an exercise was never touched."""
        return State({k: v for k, v in self.exercises.items() if k != exercise_id})

    def _with(self, exercise_id: str, record: Record) -> State:
        return State({**self.exercises, exercise_id: record})

    def to_json(self) -> dict[str, Any]:
        """Return JSON-compatible data, with its schema version."""
        return {"schema": SCHEMA, "exercises": {k: asdict(v) for k, v in self.exercises.items()}}

    @classmethod
    def from_json(cls, data: Any) -> State:
        """Read what :meth:`to_json` wrote; anything else is :class:`UnreadableStateError`."""
        if not isinstance(data, dict) or not isinstance(data.get("schema"), int):
            raise UnreadableStateError("is damaged")
        if data["schema"] > SCHEMA:
            raise UnreadableStateError("was written by a newer version of the course")
        try:
            return cls({str(k): _record(v) for k, v in data["exercises"].items()})
        except (AttributeError, KeyError, TypeError, ValueError):
            raise UnreadableStateError("is damaged") from None


def _record(data: Any) -> Record:
    record = Record(**data)
    if record.status not in _RANK or record.latest not in _RANK:
        raise ValueError("unknown status")
    if not all(isinstance(n, int) for n in (record.attempts, record.hints, *record.rules.values())):
        raise ValueError("a count is not a number")
    return record
