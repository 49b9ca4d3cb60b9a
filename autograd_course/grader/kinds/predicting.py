"""Grade numbers that a learner predicts before a run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import EllipsisType
from typing import Any

from torch import Tensor

from autograd_course.grader.exercise import PredictionExercise
from autograd_course.grader.verdict import (
    Mispredicted,
    NothingHandedIn,
    Predicted,
    Verdict,
    WrongCount,
    WrongKind,
)

_DIGITS = 5e-3  # to which a prediction agrees: three significant digits


def judge_prediction(exercise: PredictionExercise, answer: Any) -> Verdict:
    """Return the verdict on an answer: numbers, or a text with numbers between commas.

    The numbers are compared with those that ``exercise.outcome`` gives, which runs here.
    """
    try:
        typed = [*_numbers(answer)]
    except (RuntimeError, TypeError, ValueError):  # the first: a tensor of several numbers
        return Verdict(WrongKind("no numbers", type(answer).__name__, exercise.id))
    if not typed or None in typed:
        return Verdict(NothingHandedIn(exercise.id, "prediction"))
    outcome = tuple(float(number) for number in exercise.outcome())
    if len(typed) != len(outcome):
        return Verdict(WrongCount(len(typed), len(outcome)))
    for place, (number, came) in enumerate(zip(typed, outcome, strict=True), 1):
        if number is not None and not math.isclose(number, came, rel_tol=_DIGITS, abs_tol=1e-9):
            because = exercise.mistakes.get((place, number), "")
            return Verdict(Mispredicted(place, number, because))
    return Verdict(Predicted(outcome, exercise.constraints))


def _numbers(answer: Any) -> Iterator[float | None]:
    """Yield the numbers of an answer, ``None`` where none stands yet."""
    match answer:
        case None | EllipsisType():
            yield None
        case str():
            yield from map(float, answer.split(","))
        case list() | tuple():
            for number in answer:
                yield from _numbers(number)
        case int() | float() | Tensor():
            yield float(answer)
        case _:
            raise TypeError
