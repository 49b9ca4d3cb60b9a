"""Grade the name of a bug."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from autograd_doctor import RULES

from autograd_course.grader.exercise import NamingExercise
from autograd_course.grader.verdict import (
    NothingHandedIn,
    OtherRule,
    RuleNamed,
    UnknownRule,
    Verdict,
    WrongKind,
)
from autograd_course.index import id_typed


def judge_name(exercise: NamingExercise, answer: Any) -> Verdict:
    """Return the verdict on an answer, which should be the name of a rule."""
    if answer is None or answer is ... or answer == "":
        return Verdict(NothingHandedIn(exercise.id, "name"))
    if not isinstance(answer, str):
        return Verdict(WrongKind("no text", type(answer).__name__, exercise.id))
    name = id_typed(answer)
    if name == exercise.rule:
        return Verdict(RuleNamed(name, _title(name), exercise.constraints))
    if name not in RULES:
        close = get_close_matches(name, RULES, n=3, cutoff=0.5)
        return Verdict(UnknownRule(answer, tuple(close)))
    return Verdict(OtherRule(name, _title(name), exercise.but.get(name, "")))


def _title(name: str) -> str:
    title = RULES[name].title
    return title[0].lower() + title[1:].rstrip(".")
