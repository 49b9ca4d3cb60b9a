"""Grade numbers that a learner predicts before the code runs."""

from __future__ import annotations

from typing import Any

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
from autograd_course.submitted import numbers


def judge_prediction(exercise: PredictionExercise, answer: Any) -> Verdict:
    """Return the verdict on an answer: numbers, or a string of comma-separated numbers.

    This function compares the answer with the results of ``exercise.outcome``.
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
