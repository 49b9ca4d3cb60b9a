"""Grade an answer that names the faulty line of a Function and an experiment that exposes it."""

from __future__ import annotations

import re
from typing import Any

from autograd_doctor import RULES

from autograd_course.grader.exercise import LocatingExercise
from autograd_course.grader.verdict import (
    ExperimentIsBlind,
    LineIsRight,
    Located,
    NoSuchChoice,
    NothingHandedIn,
    Verdict,
    WrongKind,
)

_IGNORED = re.compile(r"line|experiment|and|[\W_]+")
_TYPED = re.compile(r"(?P<line>\d)(?P<experiment>[a-z])")


def judge_location(exercise: LocatingExercise, answer: Any) -> Verdict:
    """Return the verdict on an answer such as ``"1a"``, which names a line and an experiment."""
    if answer is None or answer is ... or answer == "":
        return Verdict(NothingHandedIn(exercise.id, "suspect"))
    if not isinstance(answer, str):
        return Verdict(WrongKind("no text", type(answer).__name__, exercise.id))
    lines = sorted({*exercise.lines, *exercise.wrong_lines})
    experiments = sorted({*exercise.experiments, exercise.experiment})
    in_order = "".join(sorted(_IGNORED.sub("", answer.lower())))  # "b2" is "2b"
    typed = _TYPED.fullmatch(in_order)
    if not typed or typed["line"] not in lines or typed["experiment"] not in experiments:
        return Verdict(NoSuchChoice(answer, lines[-1], experiments[-1]))
    line, experiment = typed["line"], typed["experiment"]
    if line in exercise.lines:
        return Verdict(LineIsRight(line, exercise.lines[line]))
    if experiment in exercise.experiments:
        return Verdict(ExperimentIsBlind(line, experiment, exercise.experiments[experiment]))
    title = RULES[exercise.rule].title
    meaning = title[0].lower() + title[1:].rstrip(".")
    return Verdict(Located(line, experiment, exercise.rule, meaning, exercise.constraints))
