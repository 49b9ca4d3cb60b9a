"""The exercise catalogue: every exercise of the course by its id, in the order of the course."""

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from autograd_course.errors import OneSentenceError
from autograd_course.grader.exercise import Exercise
from autograd_course.grader.exercises import (
    lesson_01,
    lesson_02,
    lesson_03,
    lesson_04,
    lesson_05,
    lesson_06,
    lesson_07,
    lesson_08,
    lesson_09,
    lesson_10,
    lesson_11,
)
from autograd_course.shell.syllabus import id_typed, named

MODULES = (
    lesson_01,
    lesson_02,
    lesson_03,
    lesson_04,
    lesson_05,
    lesson_06,
    lesson_07,
    lesson_08,
    lesson_09,
    lesson_10,
    lesson_11,
)
LESSONS: Mapping[str, str] = MappingProxyType({module.LESSON: module.TITLE for module in MODULES})


def _catalogue(exercises: list[Exercise]) -> Mapping[str, Exercise]:
    catalogue = {exercise.id: exercise for exercise in exercises}
    if len(catalogue) < len(exercises):
        raise ValueError("two exercises of the catalogue have the same id")
    return MappingProxyType(catalogue)


CATALOGUE = _catalogue([exercise for module in MODULES for exercise in module.EXERCISES])


class UnknownExerciseError(OneSentenceError, LookupError):
    """There is no exercise of that id; the message is one sentence that names the closest ids."""


def find(exercise_id: Any) -> Exercise:
    """Return the exercise of an id, in any case and typed with ``_``, ``-`` or spaces.

    Raises :class:`UnknownExerciseError`.
    """
    if not isinstance(exercise_id, str) or not exercise_id.strip():
        raise UnknownExerciseError(
            'the id of the exercise comes first, as text: grade("square", Square).'
        )
    if meant := named(exercise_id, CATALOGUE):
        return CATALOGUE[meant]
    typed = id_typed(exercise_id)
    likely = get_close_matches(typed, CATALOGUE, n=3, cutoff=0.6)
    close = likely or get_close_matches(typed, CATALOGUE, n=3, cutoff=0.0)
    names = " or ".join(f'"{name}"' for name in close)
    raise UnknownExerciseError(
        f'there is no exercise "{exercise_id}": did you mean {names}? progress() lists them all.'
    )
