"""``hint``: show the three hints for an exercise, one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autograd_doctor.card import as_html, as_text

from autograd_course.grader.catalogue import find
from autograd_course.grader.exercise import Exercise
from autograd_course.index import UnknownExerciseError
from autograd_course.learner.store import update


@dataclass(frozen=True, repr=False)
class Hint:
    """Hint ``number`` of ``total`` for an exercise. Both are 0 if the exercise is unknown."""

    exercise: str
    title: str
    number: int
    total: int
    text: str
    after: str = ""
    note: str = ""

    @property
    def headline(self) -> str:
        """The first line: the exercise, the number of this hint, and the total number of hints."""
        return f"{self.title} · hint {self.number} of {self.total}" if self.total else self.title

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield the text below the headline, as (label, text) pairs."""
        yield "", self.text
        yield "next", self.after
        yield "note", self.note

    def __repr__(self) -> str:
        return as_text(self.headline, self.rows())

    def _repr_html_(self) -> str:
        return as_html(self.headline, self.rows(), kind="hint")


def hint(exercise_id: str = "") -> Hint:
    """Return the next hint for an exercise: a nudge, then the idea, then almost the whole answer.

    The progress file records how many hints you have seen. After the last hint, you get the same
    hint again.

    Args:
        exercise_id: The id of the exercise, such as ``"square"``.

    Returns:
        The hint, which a notebook displays. For an unknown id, the hint lists the closest ids.

    Example:
        >>> from autograd_course import hint
        >>> hint("square").number
        1
    """
    try:
        exercise = find(exercise_id)
    except UnknownExerciseError as unknown:
        return Hint("", "hint", 0, 0, str(unknown))
    total = len(exercise.hints)
    kept = update(lambda state: state.hinted(exercise.id, total))
    number = kept.state[exercise.id].hints
    text, after = exercise.hints[number - 1], _after(exercise, number < total)
    return Hint(exercise.id, exercise.title, number, total, text, after, kept.note)


def _after(exercise: Exercise, more: bool) -> str:
    if more:
        return f'call hint("{exercise.id}") again for a more specific hint'
    return f"this was the last hint; reread {exercise.read}"
