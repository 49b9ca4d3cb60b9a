"""Statistics about a class, computed in a single pass over the students."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from autograd_classroom.gradebook import Gradebook, Score
from autograd_classroom.gradebook.records import total_points
from autograd_classroom.protocol.evidence import REPAIR
from autograd_classroom.reports.wording import by_hand, out_of

BINS = 10  # number of intervals that divide the range of possible points
RAISES = ("forward-raises", "backward-raises")
UNNAMED = "no rule"  # for a wrong answer that breaks none of the doctor's rules
STATUSES = ("passed", "wrong", "not attempted", "grader failed", "settled", "not graded")


@dataclass(frozen=True)
class Row:
    """A student's row in the table of all students. Its scores have no evidence and no remarks."""

    student: str
    points: float
    scores: dict[str, Score]


@dataclass
class Exercise:
    """The class's results for one exercise."""

    id: str
    title: str
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """The number of students who handed in the exercise, even if they did not attempt it."""
        return self.counts.total()

    @property
    def passed(self) -> float:
        """The share of attempted and graded answers that passed, or 1 if there are none."""
        tried = self.counts["passed"] + self.counts["wrong"]
        return self.counts["passed"] / tried if tried else 1.0


Collected = dict[tuple[str, str], list[str]]  # maps a common property to the students who have it


def _collection() -> Collected:
    return defaultdict(list)


@dataclass
class Overview:
    """The data for the class page: numbers, names and sentences, but no code.

    The keys of ``matrix`` are (rule, exercise) pairs. The keys of the other dictionaries are
    (exercise, sentence) pairs.
    """

    possible: float = 0.0
    rows: list[Row] = field(default_factory=list)
    exercises: dict[str, Exercise] = field(default_factory=dict)
    matrix: Collected = field(default_factory=_collection)
    repairs: Collected = field(default_factory=_collection)
    unnamed: Collected = field(default_factory=_collection)
    raised: Collected = field(default_factory=_collection)
    failures: Collected = field(default_factory=_collection)
    remarks: Collected = field(default_factory=_collection)
    settled: Collected = field(default_factory=_collection)

    def hardest(self) -> list[Exercise]:
        """Return the exercises sorted by pass rate, lowest first."""
        return sorted(self.exercises.values(), key=lambda e: (e.passed, -e.counts["wrong"]))

    def statuses(self) -> list[str]:
        """Return the statuses to show. Omit a rare status that does not occur."""
        seen = sum((e.counts for e in self.exercises.values()), Counter[str]())
        return [s for s in STATUSES if seen[s] or s in STATUSES[:3]]

    def rules(self) -> list[str]:
        """Return the broken rules, most frequent first."""
        counts: Counter[str] = Counter()
        for (rule, _), students in self.matrix.items():
            counts[rule] += len(students)
        return [rule for rule, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]

    def mistaken(self) -> list[Exercise]:
        """Return the exercises with at least one wrong answer, in course order."""
        wrong = {exercise for _, exercise in self.matrix}
        return [e for e in self.exercises.values() if e.id in wrong]

    def distribution(self) -> list[tuple[str, int]]:
        """Return (range of points in percent, number of students) pairs, lowest range first."""
        counts = Counter(self._bin(row.points) for row in self.rows if row.scores)
        width = 100 // BINS
        return [(f"{n * width}–{(n + 1) * width}", counts[n]) for n in range(BINS)]

    def _bin(self, points: float) -> int:
        return min(BINS - 1, int(BINS * points / self.possible)) if self.possible else 0


def overview(book: Gradebook) -> Overview:
    """Compute the statistics about the class in a gradebook."""
    seen = Overview(possible=book.possible())
    for tally in book.tallies():  # tallies are in course order
        seen.exercises[tally.exercise] = Exercise(tally.exercise, tally.title)
    for student in book.students():
        scores = book.scores(student)
        for score in scores:
            _count(seen, score)
        short = {s.exercise: replace(s, evidence={}, message="", remarks=()) for s in scores}
        seen.rows.append(Row(student, total_points(scores), short))
    return seen


def _count(seen: Overview, score: Score) -> None:
    exercise, student = score.exercise, score.student
    seen.exercises[exercise].counts[score.outcome] += 1
    if score.settlement:
        worth = out_of(score.points, score.possible)
        seen.settled[exercise, f"{worth}. {by_hand(score.settlement)}"].append(student)
    if score.status == "wrong":
        seen.matrix[score.rule or UNNAMED, exercise].append(student)
        if repair := score.evidence.get(REPAIR):
            seen.repairs[exercise, repair["summary"]].append(student)
        if not score.rule:
            seen.unnamed[exercise, score.message].append(student)
        if score.rule in RAISES:  # exceptions have many causes
            seen.raised[exercise, score.message].append(student)
    if score.status == "grader failed" and not score.settlement:
        seen.failures[exercise, score.message].append(student)
    for remark in score.remarks:
        seen.remarks[exercise, remark].append(student)


def most_first(found: Collected) -> Iterator[tuple[str, str, list[str]]]:
    """Yield (exercise, sentence, students) for each entry, longest list of students first."""
    for (exercise, text), students in sorted(found.items(), key=lambda i: (-len(i[1]), i[0])):
        yield exercise, text, students
