"""What exercises there are: all that a command needs to know of them without importing one.

``make notebooks`` builds ``exercises/index.json`` from the modules of the exercises, so this module
imports nothing that is large, and shell completion is fast.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from os.path import dirname, join
from types import MappingProxyType
from typing import Any, NamedTuple

from autograd_course.errors import OneSentenceError

STAR = "★"  # marks an exercise that needs an extra section
LAST_OF_THE_CORE_PATH = "08"  # the lessons with higher numbers are electives


class Entry(NamedTuple):
    """What the index says of an exercise; ``answer`` is the name that is handed to ``grade``.

    ``difficulty`` is ``"easy"``, ``"medium"`` or ``"hard"``, and ``minutes`` is how long it takes a
    learner who has just read the lesson. ``needs`` are the extra sections that it needs: if there
    is one, the exercise has a star. An ``optional`` exercise is for more practice.
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
    """Return the exercises of a lesson in order, none where there is no such lesson."""
    return [entry for entry in INDEX.values() if entry.lesson == lesson]


def lesson_with(exercise_id: str) -> str:
    """Return the lesson of an exercise, or an empty string if there is no such exercise."""
    return INDEX[exercise_id].lesson if exercise_id in INDEX else ""


def shares_its_answer(exercise_id: str) -> bool:
    """Whether other exercises of the lesson ask for the same name, so that it tells nothing."""
    asked = INDEX[exercise_id]
    return [entry.answer for entry in exercises_of(asked.lesson)].count(asked.answer) > 1


class UnknownExerciseError(OneSentenceError, LookupError):
    """There is no exercise of that id; the message is one sentence that names the closest ids."""


def known(exercise_id: Any) -> Entry:
    """Return what the index says of an id, in any case and typed with ``_``, ``-`` or spaces.

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
    """Return up to three of ``names`` that resemble what was typed, the closest first."""
    from difflib import get_close_matches  # here, so that shell completion does not import it

    return get_close_matches(typed, [*names], n=3, cutoff=cutoff)


def id_typed(text: str) -> str:
    """Normalize an id or name that was typed in any case, with ``_``, ``-`` or spaces."""
    return "-".join(text.lower().replace("_", " ").replace("-", " ").split())


def named(typed: str, names: Iterable[str]) -> str:
    """Return the one of ``names`` that was typed in another way, empty where none or several were.

    Capitals, spaces, hyphens and underscores make no difference, so that a class's name stands for
    the id of its exercise: ``ScaledSigmoid`` for ``scaled-sigmoid``.
    """
    meant = [name for name in names if _letters(name) == _letters(typed)]
    return meant[0] if len(meant) == 1 else ""


def _letters(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
