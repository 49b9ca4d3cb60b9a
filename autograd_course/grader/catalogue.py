"""The course's exercises, keyed by id. Each exercise is imported on first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from autograd_course.grader.exercise import Exercise, declared
from autograd_course.index import INDEX, known


class Catalogue(Mapping[str, Exercise]):
    """A mapping from ids to exercises, in course order."""

    def __getitem__(self, exercise_id: str) -> Exercise:
        return _loaded(exercise_id)

    def __contains__(self, exercise_id: object) -> bool:
        return exercise_id in INDEX

    def __iter__(self) -> Iterator[str]:
        return iter(INDEX)

    def __len__(self) -> int:
        return len(INDEX)


@cache
def _loaded(exercise_id: str) -> Exercise:
    folder, name = f"lesson_{INDEX[exercise_id].lesson}", exercise_id.replace("-", "_")
    return declared(import_module(f"autograd_course.exercises.{folder}.{name}"))


CATALOGUE = Catalogue()


def find(exercise_id: Any) -> Exercise:
    """Return the exercise with this id. Case, ``_``, ``-`` and spaces do not matter.

    This function imports only the exercise's own module. For an unknown id, it raises
    :class:`~autograd_course.index.UnknownExerciseError`.
    """
    return CATALOGUE[known(exercise_id).id]
