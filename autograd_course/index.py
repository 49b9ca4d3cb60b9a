"""The index of exercises, from which commands read titles and ids without importing exercises.

``make notebooks`` builds ``exercises/index.json`` from the exercise modules. This module imports
nothing large, so shell completion is fast.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from os.path import dirname, join
from types import MappingProxyType
from typing import Any, NamedTuple

from autograd_course.errors import OneSentenceError

STAR = "★"  # marks an exercise that needs an extra section
LAST_OF_THE_CORE_PATH = "08"  # lessons with a higher number are electives


class Entry(NamedTuple):
    """The index entry of an exercise. ``answer`` is the name that learners pass to ``grade``.

    ``difficulty`` is ``"easy"``, ``"medium"`` or ``"hard"``, and ``minutes`` is the time that a
    learner needs after reading the lesson. ``needs`` lists the extra sections that the exercise
    relies on. If there are any, the exercise has a star. An ``optional`` exercise offers extra
    practice.
    """

    id: str
    lesson: str
    title: str
    points: int
    difficulty: str
    minutes: int
    answer: str
    needs: Sequence[str] = ()
    optional: bool = False

    @property
    def marked_title(self) -> str:
        """The title, with a star if ``needs`` has entries and "(optional)" if it is optional."""
        star = f" {STAR}" * bool(self.needs)
        return f"{self.title}{star}{' (optional)' * self.optional}"


with open(join(dirname(__file__), "exercises", "index.json"), encoding="utf-8") as _file:
    _LESSONS = json.load(_file)

# The lesson titles, keyed by lesson, and the exercises, keyed by id. Both are in course order.
LESSONS: Mapping[str, str] = MappingProxyType({it["lesson"]: it["title"] for it in _LESSONS})
INDEX: Mapping[str, Entry] = MappingProxyType(
    {
        exercise["id"]: Entry(lesson=it["lesson"], **exercise)
        for it in _LESSONS
        for exercise in it["exercises"]
    }
)


def exercises_of(lesson: str) -> list[Entry]:
    """Return the exercises of a lesson, in order. For an unknown lesson, return no exercises."""
    return [entry for entry in INDEX.values() if entry.lesson == lesson]


def lesson_with(exercise_id: str) -> str:
    """Return the lesson of an exercise, or an empty string if the exercise is unknown."""
    return INDEX[exercise_id].lesson if exercise_id in INDEX else ""


def shares_its_answer(exercise_id: str) -> bool:
    """Return whether several exercises of the lesson use this exercise's answer name."""
    asked = INDEX[exercise_id]
    return [entry.answer for entry in exercises_of(asked.lesson)].count(asked.answer) > 1


class UnknownExerciseError(OneSentenceError, LookupError):
    """Raised if no exercise has this id. The message suggests the closest ids."""


def known(exercise_id: Any) -> Entry:
    """Return the index entry for an id. Case, ``_``, ``-`` and spaces do not matter.

    Raises :class:`UnknownExerciseError` if no exercise has this id.
    """
    if not isinstance(exercise_id, str) or not exercise_id.strip():
        raise UnknownExerciseError(
            'the id of the exercise comes first, as text: grade("square", Square).'
        )
    meant = exercise_id if exercise_id in INDEX else named(exercise_id, INDEX)
    if meant:
        return INDEX[meant]
    typed = id_typed(exercise_id)
    close = similar(typed, INDEX) or similar(typed, INDEX, cutoff=0.0)
    names = " or ".join(f'"{name}"' for name in close)
    raise UnknownExerciseError(
        f'there is no exercise "{exercise_id}": did you mean {names}? progress() lists them all.'
    )


def similar(typed: str, names: Iterable[str], cutoff: float = 0.65) -> list[str]:
    """Return up to three of ``names`` that are similar to the typed text, closest first."""
    from difflib import get_close_matches  # imported here to keep shell completion fast

    return get_close_matches(typed, [*names], n=3, cutoff=cutoff)


def id_typed(text: str) -> str:
    """Convert a typed name to an id. The name can be in any case and contain ``_`` or spaces."""
    return "-".join(text.lower().replace("_", " ").replace("-", " ").split())


def named(typed: str, names: Iterable[str]) -> str:
    """If exactly one of ``names`` matches the typed text, return it. Otherwise return ``""``.

    Case, spaces, hyphens and underscores do not matter. So a class name also identifies its
    exercise: ``ScaledSigmoid`` means ``scaled-sigmoid``.
    """
    letters = _letters(typed)
    meant = [name for name in names if _letters(name) == letters]
    return meant[0] if len(meant) == 1 else ""


def _letters(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
