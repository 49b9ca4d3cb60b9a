"""The order in which a reviewer sees the answers: one exercise at a time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from autograd_classroom.gradebook import Gradebook, Score

FILTERS = {
    "all": "All answers",
    "not-passed": "Attempted, not passed",
    "not-settled": "Attempted, not passed, not settled",
    "not-attempted": "Not attempted",
}

Cell = tuple[str, str]  # a student and an exercise


@dataclass(frozen=True)
class Matrix:
    """The scores of a class, by student and exercise."""

    students: list[str]
    exercises: dict[str, str]  # maps each id to a title, in course order
    scores: dict[Cell, Score]
    totals: dict[str, float]

    @staticmethod
    def of(book: Gradebook) -> Matrix:
        """Read the scores from a gradebook."""
        scores = {(score.student, score.exercise): score for score in book.outline()}
        totals: dict[str, float] = defaultdict(float)
        for (student, _), score in scores.items():
            totals[student] += score.points
        exercises = {tally.exercise: tally.title for tally in book.tallies()}
        students = [*book.students(), *(person.label for person in book.unrecorded())]
        return Matrix(students, exercises, scores, totals)

    def is_wanted(self, cell: Cell, show: str) -> bool:
        """Return whether the filter ``show`` includes an answer."""
        score = self.scores.get(cell)
        if score is None or show == "all":
            return score is not None
        if (score.outcome == "not attempted") != (show == "not-attempted"):
            return False
        return not score.is_passed and not (show == "not-settled" and score.settlement)

    def wanted(self, show: str) -> list[Cell]:
        """Return the answers that the filter ``show`` includes, in the order of the review."""
        cells = ((student, exercise) for exercise in self.exercises for student in self.students)
        return [cell for cell in cells if self.is_wanted(cell, show)]

    def around(self, cell: Cell, show: str) -> tuple[Cell | None, Cell | None]:
        """Return the previous and the next answer that the filter ``show`` includes."""
        rows = {student: place for place, student in enumerate(self.students)}
        columns = {exercise: place for place, exercise in enumerate(self.exercises)}

        def place(other: Cell) -> tuple[int, int]:
            student, exercise = other
            return columns.get(exercise, len(columns)), rows[student]

        wanted = self.wanted(show)
        before = [other for other in wanted if place(other) < place(cell)]
        after = (other for other in wanted if place(other) > place(cell))
        return before[-1] if before else None, next(after, None)
