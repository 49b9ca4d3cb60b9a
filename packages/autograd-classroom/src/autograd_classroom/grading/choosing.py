"""Select the exercises to grade. You can specify lessons by number or name, and exercises by id."""

from __future__ import annotations

from collections.abc import Iterable

from autograd_classroom.gradebook.naming import near
from autograd_course.errors import CourseError
from autograd_course.index import INDEX, LESSONS, Entry


class UnknownExercisesError(CourseError, LookupError):
    """Raised when a word names neither a lesson nor an exercise, or when no word names anything.

    The message is a single sentence.
    """


def chosen(words: Iterable[str]) -> tuple[Entry, ...]:
    """Return the exercises that the words name, in course order.

    A word is a name or several names separated by commas, such as ``01``, ``3``,
    ``03_gradient_patterns`` or ``square,linear``. If there are no words, return all exercises.
    Raises :class:`UnknownExercisesError`.
    """
    given = list(words)
    names = [name.strip() for word in given for name in word.split(",") if name.strip()]
    if given and not names:
        raise UnknownExercisesError(
            "no lesson and no exercise is named: name some, as in 01,03, or leave the option out."
        )
    ids = {e for name in names for e in _named(name)} if names else set(INDEX)
    return tuple(exercise for exercise in INDEX.values() if exercise.id in ids)


def _named(name: str) -> list[str]:
    of_lesson = [e.id for e in INDEX.values() if name.zfill(2) in (e.lesson, e.lesson[:2])]
    if name in INDEX:
        return [name]
    if not of_lesson:
        near_by = near(name, [*LESSONS, *INDEX])
        raise UnknownExercisesError(f"there is no lesson and no exercise {name!r}{near_by}.")
    return of_lesson
