"""The index of exercises, so that a command can describe them without importing them.

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
LAST_OF_THE_CORE_PATH = "08"  # lessons with higher numbers are electives


class Entry(NamedTuple):
    """The index entry of an exercise. ``answer`` is the name that learners pass to ``grade``.

    ``difficulty`` is ``"easy"``, ``"medium"`` or ``"hard"``, and ``minutes`` is the time that a
    learner needs after reading the lesson. ``needs`` contains the extra sections that the exercise
    needs. If there are any, the exercise has a star. An ``optional`` exercise is for more practice.
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
        """The title, with a star if the exercise needs an extra section, or with "(optional)"."""
        star = f" {STAR}" * bool(self.needs)
        return f"{self.title}{star}{' (optional)' * self.optional}"


with open(join(dirname(__file__), "exercises", "index.json"), encoding="utf-8") as _file:
    _LESSONS = json.load(_file)

# The titles of the lessons, and the exercises by their ids, both in the order of the course.
LESSONS: Mapping[str, str] = MappingProxyType({it["lesson"]: it["title"] for it in _LESSONS})
INDEX: Mapping[str, Entry] = MappingProxyType(
    {
        exercise["id"]: Entry(lesson=it["lesson"], **exercise)
        for it in _LESSONS
        for exercise in it["exercises"]
    }
)


def exercises_of(lesson: str) -> list[Entry]:
    """Return the exercises of a lesson in order. An unknown lesson has none."""
    return [entry for entry in INDEX.values() if entry.lesson == lesson]


def lesson_with(exercise_id: str) -> str:
    """Return the lesson of an exercise, or an empty string if the exercise is unknown."""
    return INDEX[exercise_id].lesson if exercise_id in INDEX else ""


def shares_its_answer(exercise_id: str) -> bool:
    """Whether other exercises of the lesson use the same name, so that it is ambiguous."""
    asked = INDEX[exercise_id]
    return [entry.answer for entry in exercises_of(asked.lesson)].count(asked.answer) > 1


class UnknownExerciseError(OneSentenceError, LookupError):
    """No exercise has this id. The message suggests the closest ids."""


def known(exercise_id: Any) -> Entry:
    """Return the index entry for an id, which may contain capitals, ``_``, ``-`` or spaces.

    Raises :class:`UnknownExerciseError`.
    """
    if not isinstance(exercise_id, str) or not exercise_id.strip():
        raise UnknownExerciseError(
            'the id of the exercise comes first, as text: grade("square", Square).'
        )
    if meant := named(exercise_id, INDEX):
        return INDEX[meant]
    typed = id_typed(exercise_id)
    close = similar(typed, INDEX) or similar(typed, INDEX, cutoff=0.0)
    names = " or ".join(f'"{name}"' for name in close)
    raise UnknownExerciseError(
        f'there is no exercise "{exercise_id}": did you mean {names}? progress() lists them all.'
    )


def similar(typed: str, names: Iterable[str], cutoff: float = 0.65) -> list[str]:
    """Return up to three of ``names`` that resemble the typed text, the closest first."""
    from difflib import get_close_matches  # here, so that shell completion does not import it

    return get_close_matches(typed, [*names], n=3, cutoff=cutoff)


def id_typed(text: str) -> str:
    """Normalize an id or name that the user typed with capitals, ``_``, ``-`` or spaces."""
    return "-".join(text.lower().replace("_", " ").replace("-", " ").split())


def named(typed: str, names: Iterable[str]) -> str:
    """Return the only one of ``names`` that matches the typed text, or an empty string.

    Capitals, spaces, hyphens and underscores make no difference. So a class name also identifies
    its exercise: ``ScaledSigmoid`` means ``scaled-sigmoid``.
    """
    meant = [name for name in names if _letters(name) == _letters(typed)]
    return meant[0] if len(meant) == 1 else ""


def _letters(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
