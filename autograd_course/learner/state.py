"""A learner's saved progress, as immutable data and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from autograd_course.errors import CourseError

SCHEMA = 1
_KNOWN = ("schema", "exercises", "questions", "measurements")
_RUNS = 50  # the maximum number of runs to keep for each measurement; older runs are removed
# The lesson numbers under which older versions saved the answers to these questions.
_EARLIER: Mapping[str, tuple[str, ...]] = {
    "04": ("08",),
    "05": ("04",),
    "06": ("05",),
    "07": ("06",),
    "08": ("07",),
    "09": ("03",),
    "10": ("04",),
    "11": ("09",),
    "12": ("09",),
    "13": ("10", "08"),
    "14": ("10",),
    "15": ("11",),
}
_RANK = {"": 0, "not attempted": 1, "wrong": 2, "passed": 3}


class UnreadableStateError(CourseError, ValueError):
    """Raised if a different version wrote the data. The message completes "The progress file …"."""


@dataclass(frozen=True)
class Record:
    """The record of one exercise: its best status, its latest status, and its attempts.

    ``attempts`` counts the graded answers, and ``hints`` counts the hints that the learner has
    seen. ``rules`` counts how often the answers broke each rule.
    """

    status: str = ""
    latest: str = ""
    attempts: int = 0
    hints: int = 0
    rules: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Answered:
    """The answer to one question: the letters that the learner chose last, or the text of an essay.

    ``right`` says whether any answer so far was right, or whether the learner wrote an essay.
    ``latest`` says the same about the most recent answer. ``attempts`` counts the answers.
    """

    chosen: str = ""
    text: str = ""
    right: bool = False
    latest: bool = False
    attempts: int = 0


@dataclass(frozen=True)
class Measurement:
    """The cost of one measured run."""

    milliseconds: float
    peak_bytes: int


@dataclass(frozen=True)
class State:
    """All attempted exercises, keyed by id, and all answered questions, with keys like ``01/vjp``.

    ``measurements`` maps names to measured runs, from the oldest to the latest. ``unknown``
    contains the entries of the file that only a newer version of the course understands. This
    version never changes them.
    """

    exercises: Mapping[str, Record] = field(default_factory=dict)
    questions: Mapping[str, Answered] = field(default_factory=dict)
    measurements: Mapping[str, tuple[Measurement, ...]] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, exercise_id: str) -> Record:
        return self.exercises.get(exercise_id, Record())

    def graded(self, exercise_id: str, status: str, rule: str) -> State:
        """Return the state with one more graded answer. An exercise that has passed stays passed.

        If no answer was written, the latest verdict does not change, because rerunning an unedited
        notebook gives no new information.
        """
        old = self[exercise_id]
        judged = status != "not attempted"
        rules = {**old.rules, rule: old.rules.get(rule, 0) + 1} if rule else old.rules
        return self._with(
            exercise_id,
            replace(
                old,
                status=max(old.status, status, key=_RANK.__getitem__),
                latest=status if judged else old.latest or status,
                attempts=old.attempts + judged,
                rules=rules,
            ),
        )

    def hinted(self, exercise_id: str, most: int) -> State:
        """Return the state with one more hint shown. ``most`` is the total number of hints."""
        old = self[exercise_id]
        return self._with(exercise_id, replace(old, hints=min(old.hints + 1, most)))

    def without(self, exercise_id: str) -> State:
        """Return the state without the record of an exercise."""
        rest = {k: v for k, v in self.exercises.items() if k != exercise_id}
        return replace(self, exercises=rest)

    def question(self, lesson: str, question_id: str) -> Answered:
        """Return the saved answer to a question, even if its lesson has been renumbered."""
        keys = (f"{number}/{question_id}" for number in (lesson, *_EARLIER.get(lesson, ())))
        return next((self.questions[key] for key in keys if key in self.questions), Answered())

    def answered(
        self, lesson: str, question_id: str, *, right: bool, chosen: str = "", text: str = ""
    ) -> State:
        """Return the state with one more answer. Once a question is right, it stays right."""
        old = self.question(lesson, question_id)
        new = Answered(chosen, text, old.right or right, right, old.attempts + 1)
        return replace(self, questions={**self.questions, f"{lesson}/{question_id}": new})

    def measured(self, name: str, run: Measurement) -> State:
        """Return the state with one more measured run. Keep only the latest runs."""
        runs = (*self.measurements.get(name, ()), run)[-_RUNS:]
        return replace(self, measurements={**self.measurements, name: runs})

    def _with(self, exercise_id: str, record: Record) -> State:
        return replace(self, exercises={**self.exercises, exercise_id: record})

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON-compatible data that includes the schema version."""
        exercises = {k: asdict(v) for k, v in self.exercises.items()}
        questions = {k: asdict(v) for k, v in self.questions.items()}
        measured = {k: [asdict(run) for run in v] for k, v in self.measurements.items()}
        later = {"questions": questions, "measurements": measured}
        kept = {name: held for name, held in later.items() if held}
        return {**self.unknown, "schema": SCHEMA, "exercises": exercises, **kept}

    @classmethod
    def from_json(cls, data: Any) -> State:
        """Create a state from the result of :meth:`to_json`.

        Raises :class:`UnreadableStateError` for any other data.
        """
        if not isinstance(data, dict) or not isinstance(data.get("schema"), int):
            raise UnreadableStateError("is damaged")
        if data["schema"] > SCHEMA:
            raise UnreadableStateError("was written by a newer version of the course")
        try:
            return cls(
                {str(k): _record(v) for k, v in data["exercises"].items()},
                {str(k): _answered(v) for k, v in data.get("questions", {}).items()},
                {str(k): _measured(v) for k, v in data.get("measurements", {}).items()},
                {k: v for k, v in data.items() if k not in _KNOWN},
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            raise UnreadableStateError("is damaged") from None


def _record(data: Any) -> Record:
    record = Record(**data)
    if record.status not in _RANK or record.latest not in _RANK:
        raise ValueError("unknown status")
    if not all(isinstance(n, int) for n in (record.attempts, record.hints, *record.rules.values())):
        raise ValueError("a count is not a number")
    return record


def _answered(data: Any) -> Answered:
    answered = Answered(**data)
    if not all(isinstance(text, str) for text in (answered.chosen, answered.text)):
        raise ValueError("an answer is not a text")
    if not all(isinstance(flag, bool) for flag in (answered.right, answered.latest)):
        raise ValueError("a verdict is not true or false")
    if not isinstance(answered.attempts, int):
        raise ValueError("a count is not a number")
    return answered


def _measured(data: Any) -> tuple[Measurement, ...]:
    runs = tuple(Measurement(**run) for run in data)
    if not all(isinstance(n, int | float) for r in runs for n in (r.milliseconds, r.peak_bytes)):
        raise ValueError("a measurement is not a number")
    return runs
