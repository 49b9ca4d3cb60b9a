"""Grade numbers that a learner predicts before a run."""

from __future__ import annotations

from collections.abc import Iterator
from types import EllipsisType
from typing import Any

from torch import Tensor

from autograd_course.grader.comparison import agrees
from autograd_course.grader.exercise import PredictionExercise
from autograd_course.grader.verdict import (
    Mispredicted,
    NothingHandedIn,
    Predicted,
    Verdict,
    WrongCount,
    WrongKind,
)


def judge_prediction(exercise: PredictionExercise, answer: Any) -> Verdict:
    """Return the verdict on an answer: numbers, or a text with numbers between commas.

    The grader compares the numbers with those of ``exercise.outcome``, which runs here.
    """
    typed = numbers(answer)
    if typed is None:
        return Verdict(WrongKind("no numbers", type(answer).__name__, exercise.id))
    if not typed or None in typed:
        return Verdict(NothingHandedIn(exercise.id, "prediction"))
    outcome = tuple(float(number) for number in exercise.outcome())
    if len(typed) != len(outcome):
        return Verdict(WrongCount(len(typed), len(outcome)))
    for place, (number, came) in enumerate(zip(typed, outcome, strict=True), 1):
        if number is not None and not agrees(number, came):
            because = exercise.mistakes.get((place, number), "")
            return Verdict(Mispredicted(place, number, because))
    return Verdict(Predicted(outcome, exercise.constraints))


def numbers(answer: Any) -> list[float | None] | None:
    """Return the numbers of an answer, ``None`` for each ``...``, or ``None`` for other values."""
    try:
        return [*_numbers(answer)]
    except (RuntimeError, TypeError, ValueError):  # the first row of a tensor with several dims
        return None


def _numbers(answer: Any) -> Iterator[float | None]:
    """Yield the numbers of an answer, ``None`` for a missing number."""
    match answer:
        case None | EllipsisType():
            yield None
        case str():
            yield from map(float, answer.split(","))
        case list() | tuple():
            for number in answer:
                yield from _numbers(number)
        case Tensor() if answer.dim() == 1:
            yield from answer.tolist()
        case int() | float() | Tensor():
            yield float(answer)
        case _:
            raise TypeError
