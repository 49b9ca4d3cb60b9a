"""Judge the name of a bug."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from autograd_doctor import RULES

from autograd_course.grader.exercise import NamingExercise
from autograd_course.grader.verdict import Verdict, unfinished, wrong
from autograd_course.index import id_typed


def judged(exercise: NamingExercise, answer: Any) -> Verdict:
    """Return the verdict on an answer, which should be the name of a rule."""
    call = f'grade("{exercise.id}", "the-name-of-a-rule")'
    if answer is None or answer is ... or answer == "":
        return unfinished(f"there is no answer yet: {call}.")
    if not isinstance(answer, str):
        return wrong(f"this is of type {type(answer).__name__}; hand in the name as text: {call}.")
    name = id_typed(answer)
    if name == exercise.rule:
        return Verdict("passed", f"{name}: {_title(name)}{_told(exercise)}.")
    if name not in RULES:
        return wrong(_unknown(answer, name))
    return wrong(
        exercise.but.get(name) or f"`{name}` means: {_title(name)}. That is not what happens here."
    )


def _title(name: str) -> str:
    title = RULES[name].title
    return title[0].lower() + title[1:].rstrip(".")


def _unknown(answer: str, name: str) -> str:
    close = get_close_matches(name, RULES, n=3, cutoff=0.5)
    like = f" Did you mean {' or '.join(close)}?" if close else ""
    return f'no rule is called "{answer}".{like} `autograd-course explain` lists all rules.'


def _told(exercise: NamingExercise) -> str:
    return f", and {exercise.bounds}" if exercise.bounds else ""
